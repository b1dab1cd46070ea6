"""The history page, from the recorder: past Jobs, also deleted ones, usage, waiting times, and the accuracy of estimates."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from pyroclast.views.readable import hours_text, in_hours
from pyroclast_board.pages.base import Page, Section, Templates, checked

OF: Final = "history.html"
JOBS: Final = ("since", "until", "namespace", "queue", "user", "flow", "state", "name")
PARAMETERS: Final = (*JOBS, "by")
SHOWN: Final = 100


def history_questions(query: Mapping[str, str]) -> dict[str, dict[str, str]]:
    """Return the query parameters of each request to the recorder, by its path.

    Raises:
        BadRequest: a parameter is unknown or too long.
    """
    given = checked(query, PARAMETERS)
    window = {name: given[name] for name in ("since", "until") if name in given}
    of_jobs = {name: given[name] for name in JOBS if name in given}
    narrow = {name: given[name] for name in ("queue", "user", "namespace") if name in given}
    return {
        "jobs": {**of_jobs, "limit": str(SHOWN)},
        "usage": {**window, **narrow, "by": given.get("by", "queue,resource")},
        "waits": window,
        "estimates": window,
    }


def history(templates: Templates, query: Mapping[str, str], answers: Mapping[str, Mapping[str, Any]], missing: str) -> Page:
    """Return the history page. `answers` are the recorder's answers by request. `missing` is the reason for missing answers."""
    usage = answers.get("usage", {})
    rows = [
        {**each, "hours": hours_text(in_hours(each["resource"], each["asked"])), "doubt": _doubt(each)}
        for each in usage.get("items", ())
    ]
    jobs = answers.get("jobs", {})
    sections = [
        Section("filters", templates.macro(OF, "filters")(query, missing)),
        Section("jobs", templates.macro(OF, "jobs")(jobs.get("items", ()), jobs.get("isCut", False))),
        Section("usage", templates.macro(OF, "usage")(usage.get("by", ()), rows, usage.get("gapSeconds", 0)), is_half=True),
        Section("waits", templates.macro(OF, "waits")(answers.get("waits", {}).get("items", ())), is_half=True),
        Section("estimates", templates.macro(OF, "estimates")(answers.get("estimates", {}).get("items", ()))),
    ]
    return Page("History", "history", sections, is_live=False)


def _doubt(row: Mapping[str, Any]) -> str:
    return hours_text(in_hours(row["resource"], row["doubtful"])) if row["doubtful"] else ""
