"""The rows of predicted start times, which the scheduler writes to PodGroups."""

from __future__ import annotations

from typing import Any

from pyroclast.api import keys
from pyroclast.api.records.groups import PodGroup
from pyroclast.api.waiting import Waiting, read_waiting
from pyroclast_recorder.facts.pods import job_of
from pyroclast_recorder.facts.units import clipped, seconds


def prediction_facts(group: PodGroup) -> dict[str, Any] | None:
    """Return the row of `predictions` of a PodGroup; None when it has no estimated start or no Job."""
    job, text = job_of(group), group.metadata.annotations.get(keys.WAITING)
    said = read_waiting(text) if text else None
    return None if job is None or said is None else prediction_row(job, said)


def prediction_row(job: str, said: Waiting) -> dict[str, Any] | None:
    """Return the row of `predictions` for the waiting `said` of a PodGroup; None without a valid estimated start.

    `job`: the uid of the PodGroup's row in `jobs`.
    """
    if said.start is None:
        return None
    at, (earliest, likely, latest) = seconds(said.seen), map(seconds, said.start)
    if at is None or earliest is None or likely is None or latest is None or not earliest <= likely <= latest:
        return None
    return {"job": job, "at": at, "p10": earliest, "p50": likely, "p90": latest, "basis": clipped(said.basis)}
