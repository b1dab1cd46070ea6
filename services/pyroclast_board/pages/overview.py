"""The overview of the cluster now, and the pages of other times: history, and what a change would do."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from datetime import datetime
from typing import Any, Final

import orjson

from pyroclast.lifecycle.times import format_time
from pyroclast.pictures.bars import ResourceBar, resource_bars
from pyroclast.pictures.svg import Picture
from pyroclast.resources.quantity import ZERO, Quantity
from pyroclast.views.explanation import PARTS, what_if_body, what_if_summary
from pyroclast.views.groups import position_of
from pyroclast.views.readable import amount, hours_text, in_hours
from pyroclast_board.cluster.cluster import Cluster
from pyroclast_board.cluster.jobs import as_object
from pyroclast_board.cluster.records import ShownNode
from pyroclast_board.pages.base import EMPTY, BadRequest, Ends, Page, Scope, Section, Templates, checked, shown_amount
from pyroclast_board.pages.jobs import is_silent, state_of, with_lost

HISTORY_PAGE: Final = "history.html"
JOBS: Final = ("since", "until", "namespace", "queue", "user", "flow", "state", "name")
PARAMETERS: Final = (*JOBS, "by")
SHOWN_PAST: Final = 100


def history_questions(query: Mapping[str, str]) -> dict[str, dict[str, str]]:
    """Return the query parameters of each request to the recorder, by its path."""
    given = checked(query, PARAMETERS)
    window = {name: given[name] for name in ("since", "until") if name in given}
    of_jobs = {name: given[name] for name in JOBS if name in given}
    narrow = {name: given[name] for name in ("queue", "user", "namespace") if name in given}
    return {
        "jobs": {**of_jobs, "limit": str(SHOWN_PAST)},
        "usage": {**window, **narrow, "by": given.get("by", "queue,resource")},
        "waits": window,
        "estimates": window,
        "evictions": window,
    }


def history(templates: Templates, query: Mapping[str, str], answers: Mapping[str, Mapping[str, Any]], missing: str) -> Page:
    """Return the history page. `answers` are the recorder's answers by request. `missing` is the reason for missing answers."""
    usage = answers.get("usage", {})
    rows = [
        {
            **each,
            "hours": hours_text(in_hours(each["resource"], each["asked"])),
            "doubt": hours_text(in_hours(each["resource"], each["doubtful"])) if each["doubtful"] else "",
        }
        for each in usage.get("items", ())
    ]
    jobs = answers.get("jobs", {})
    sections = [
        Section("filters", templates.macro(HISTORY_PAGE, "filters")(query, missing)),
        Section("jobs", templates.macro(HISTORY_PAGE, "jobs")(jobs.get("items", ()), jobs.get("isCut", False))),
        Section(
            "usage", templates.macro(HISTORY_PAGE, "usage")(usage.get("by", ()), rows, usage.get("gapSeconds", 0)), is_half=True
        ),
        Section("waits", templates.macro(HISTORY_PAGE, "waits")(answers.get("waits", {}).get("items", ())), is_half=True),
        Section("estimates", templates.macro(HISTORY_PAGE, "estimates")(answers.get("estimates", {}).get("items", ()))),
        Section("evictions", templates.macro(HISTORY_PAGE, "evictions")(*_matrix(answers.get("evictions", {}).get("items", ())))),
    ]
    return Page("History", "history", sections, is_live=False)


def _matrix(rows: Iterable[Mapping[str, Any]]) -> tuple[list[str], list[tuple[str, list[int]]]]:
    """Return the queues that got room by evictions, and for each queue that lost pods the number of pods for each of these."""
    counts: Counter[tuple[str, str]] = Counter()
    for row in rows:
        counts[row["queue"], row["for"]] += row["pods"]
    takers = sorted({taker for _, taker in counts})
    return takers, [(queue, [counts[queue, taker] for taker in takers]) for queue in sorted({queue for queue, _ in counts})]


WHAT_IF_PAGE: Final = "what_if.html"
SHOWN_STARTS: Final = 100


def question(query: Mapping[str, str]) -> bytes | None:
    """Return the question to the scheduler. None when the query names no change."""
    given = checked(query, PARTS)
    if not given:
        return None
    try:
        return orjson.dumps(what_if_body(given, "default"))
    except ValueError as error:
        raise BadRequest(str(error)) from error


def what_if(
    cluster: Cluster, templates: Templates, query: Mapping[str, str], answer: tuple[int, bytes] | None, *, asked: bool
) -> Page:
    """Return the page. `answer`: the status and JSON of the scheduler. None when it gave none, or was not `asked`."""
    said: dict[str, Any] = {} if answer is None else orjson.loads(answer[1])
    missing = ""
    if asked and (answer is None or answer[0] != 200):
        missing = str(said.get("message") or "the scheduler gives no answer")
    uids = {(row.namespace, row.name): row.uid for row in cluster.table.rows if row.is_waiting}
    rows = [{**each, "uid": uids.get((each["namespace"], each["name"]), "")} for each in said.get("items", ())]
    lines = what_if_summary(said) if asked and not missing else []
    command = " ".join(["vcctl what-if", *(f"--{name} {query[name]}" for name in PARTS if query.get(name))])
    queues = sorted(each.metadata.name for each in cluster.queues.values())
    starts = templates.macro(WHAT_IF_PAGE, "starts")(lines, rows[:SHOWN_STARTS], len(rows), command) if lines else EMPTY
    form = templates.macro(WHAT_IF_PAGE, "form")(query, queues, missing)
    sections = [Section("form", form), Section("starts", starts)]
    return Page("What if", "what-if", sections, is_live=False)


DAY: Final = 86_400
SHOWN: Final = 12
MINE: Final = 8
"""Jobs of a user in each state."""


def overview(cluster: Cluster, templates: Templates, scope: Scope, user: str, ends: Ends | None) -> Page:
    """Return the first page: the own Jobs of a user, by name, and the sums of all. Without a `user`, the Jobs of everybody."""
    codes: Counter[str] = Counter()
    oldest: dict[str, str] = {}
    states: Counter[str] = Counter()
    failed: Counter[str] = Counter()
    yesterday = cluster.now() - DAY
    for row in cluster.table.rows:
        states[state_of(row)] += 1
        if row.is_waiting:
            codes[row.code] += 1
            oldest[row.code] = min(row.created, oldest.get(row.code, row.created))
        elif row.has_failed and row.changed and datetime.fromisoformat(row.changed).timestamp() > yesterday:
            failed[row.reason or "no reason given"] += 1
    resources = _resources(cluster)
    values = {
        "states": {name: states[name] for name in ("waiting", "running", "completed", "failed", "other")},
        "codes": [(code, count, oldest[code]) for code, count in codes.most_common()],
        "failed": failed.most_common(SHOWN),
        "resources": resources,
        "picture": _picture(resources),
        "services": cluster.services,
        "watches": sorted(cluster.ages()),
    }
    sections = [Section("mine", templates.macro("overview.html", "mine")(user, *_mine(cluster, scope, user, ends)))]
    sections += [
        Section(name, templates.macro("overview.html", name)(values), is_half=name != "jobs")
        for name in ("jobs", "waiting", "failures", "resources", "services")
    ]
    return Page("Overview", "overview", sections)


STATES: Final = ("running", "waiting", "failed", "completed", "other")


def _mine(cluster: Cluster, scope: Scope, user: str, ends: Ends | None) -> tuple[list[dict[str, Any]], Counter[str]]:
    """Return the newest Jobs of a user in each state with where they stand, and the number of Jobs by state."""
    own = [row for row in cluster.table.rows if scope.sees(row.namespace) and user in {"", row.user}]
    counts = Counter(state_of(row) for row in own)
    own.sort(key=lambda row: row.changed, reverse=True)
    silent = {each.metadata.name for each in cluster.nodes.values() if is_silent(each) is not None}
    shown = []
    for state in STATES:
        for row in [each for each in own if state_of(each) == state][:MINE]:
            end, begun = (ends or {}).get((row.namespace, row.name)), _seconds(row.changed)
            group = cluster.table.group(row.uid)
            done = None if end is None or state != "running" else (cluster.now() - begun) / max(1.0, end[0] - begun)
            shown.append({
                "row": with_lost(cluster, row, silent),
                "state": state,
                "position": position_of(as_object(group)) if group is not None and row.is_waiting else None,
                "done": None if done is None else max(0, min(99, round(100 * done))),
                "ends": format_time(end[0]) if end is not None and state == "running" else "",
            })  # fmt: skip
    return shown, counts


def _seconds(text: str) -> float:
    return datetime.fromisoformat(text).timestamp() if text else 0.0


def is_away(node: ShownNode) -> bool:
    """Return whether a node accepts no new pods, because it is not ready or is cordoned."""
    is_ready = any(each.type == "Ready" and each.status == "True" for each in node.status.conditions)
    return not is_ready or node.spec.unschedulable


def _picture(resources: list[dict[str, Any]]) -> Picture:
    bars = []
    for row in resources:
        amounts = {name: value for name, value in row.items() if name != "resource"}
        numbers = {name: float(amount(value)) for name, value in amounts.items()}
        bars.append(
            ResourceBar(row["resource"], numbers, {name: shown_amount(each, row["resource"]) for name, each in amounts.items()})
        )
    return resource_bars("Resources of the nodes", bars)


def _resources(cluster: Cluster) -> list[dict[str, Any]]:
    """Sum the resources of all nodes: allocated, idle, reserved, and away (on nodes that accept no pods)."""
    kept = cluster.kept_nodes
    sums: dict[str, dict[str, Quantity]] = {}
    for node in cluster.nodes.values():
        where = "away" if is_away(node) else "reserved" if node.metadata.name in kept else "idle"
        free = cluster.books.free(node)
        for name, value in node.status.allocatable.items():
            total, left = amount(value), free.get(name, ZERO)
            of = sums.setdefault(name, dict.fromkeys(("total", "allocated", "idle", "reserved", "away"), ZERO))
            of["total"] += total
            of["allocated"] += total - left
            of[where] += left
    names = sorted((name for name in sums if name in {"cpu", "memory"} or "/" in name), key=lambda name: ("/" not in name, name))
    return [{"resource": name, **{part: str(value) for part, value in sums[name].items()}} for name in names]
