"""The pages of queues and flows.

Queues are a tree with a bar for each resource; one queue shows its waiting Jobs in order, one flow its graph.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, Final

from pyroclast.api.types import Key
from pyroclast.lifecycle.times import format_time
from pyroclast.pictures.chart import chart, sparkline
from pyroclast.pictures.svg import Picture
from pyroclast.views.flows import draw_flow, flow_rows
from pyroclast.views.groups import RUNNING_PHASES, job_of, stored_order
from pyroclast.views.jobs import WAITING_PHASES
from pyroclast.views.queues import budget_rows, draw_queues, need_rows, queue_rows, signed_hours
from pyroclast.views.readable import is_in_mebibytes, main_resources
from pyroclast_board.cluster.cluster import Cluster
from pyroclast_board.cluster.jobs import as_object
from pyroclast_board.cluster.records import ShownGroup, ShownObject
from pyroclast_board.pages.base import Page, Scope, Section, Templates

SHOWN_FLOWS: Final = 200


def flows(cluster: Cluster, templates: Templates, scope: Scope) -> Page:
    """Return the page of all flows, newest first."""
    seen = [each for each in cluster.flows.values() if scope.sees(each.metadata.namespace)]
    seen.sort(key=lambda each: (each.metadata.creation_timestamp or "", each.metadata.name), reverse=True)
    row = templates.macro("flows.html", "row")
    rows = tuple((f"flow-{each.metadata.uid}", row(_summary(each))) for each in seen[:SHOWN_FLOWS])
    counts = templates.macro("flows.html", "counts")(len(seen), len(rows), len(cluster.flows) - len(seen))
    return Page(
        "Flows", "flows", [Section("counts", counts), Section("flows", head=templates.macro("flows.html", "head")(), rows=rows)]
    )


def flow(cluster: Cluster, templates: Templates, scope: Scope, uid: str) -> Page | None:
    """Return the page of one flow. None when the flow does not exist or the viewer may not see it."""
    record = cluster.flow(uid)
    if record is None or not scope.sees(record.metadata.namespace):
        return None
    key = str(record.metadata.key)
    own = [each for each in cluster.table.rows if each.namespace == record.metadata.namespace and each.flow]
    rows = flow_rows(as_object(record), cluster.now(), {each.name: each.code for each in own})
    jobs = {each.name: each.uid for each in own}
    prefix = f"{record.metadata.name}-"
    entries = [{**each, "uid": jobs.get(f"{prefix}{each['name']}", "")} for each in rows]
    of = "flows.html"
    sections = [
        Section("flow", templates.macro(of, "about")(_summary(record))),
        Section("graph", templates.macro(of, "graph")(draw_flow(key, rows))),
        Section("entries", templates.macro(of, "entries")(entries)),
    ]
    return Page(f"Flow {key}", "flows", sections)


def _summary(record: ShownObject) -> dict[str, Any]:
    metadata, status = record.metadata, record.status
    return {
        "uid": metadata.uid,
        "namespace": metadata.namespace,
        "name": metadata.name,
        "phase": (status.get("state") or {}).get("phase") or "Pending",
        "entries": len(record.spec.get("flows") or ()),
        "completed": len(status.get("completedJobs") or ()),
        "failed": len(status.get("failedJobs") or ()),
        "created": metadata.creation_timestamp or "",
    }


SHOWN: Final = 100


def queues(cluster: Cluster, templates: Templates, history: Mapping[str, Any] | str) -> Page:
    """Return the page of all queues. The page names no Job, so that all viewers see the same page.

    `history`: what they had in the last day, or why that is not known.
    """
    documents = [as_object(each) for each in cluster.queues.values()]
    needs = need_rows(documents, _groups(cluster), cluster.now())
    series = {} if isinstance(history, str) else {(each["queue"], each["resource"]): each for each in history["queues"]}
    lines = [(each, _spark(each, series.get((each["name"], each["resource"] or "cpu")))) for each in needs]
    need = Section("need", templates.macro("queues.html", "need")(lines, history if isinstance(history, str) else ""))
    shares = _rows(cluster, [as_object(each) for each in cluster.queues.values()])
    draw, row = templates.macro("queues.html", "bars"), templates.macro("queues.html", "row")
    rows = tuple((f"queue-{each['name']}-{each['resource']}", row(each)) for each in shares)
    picture = Section("bars", draw(draw_queues("Queues", shares)))
    return Page("Queues", "queues", [need, picture, Section("queues", head=templates.macro("queues.html", "head")(), rows=rows)])


@dataclass(frozen=True, slots=True)
class QueueFacts:
    """What others say of a queue: the scheduler's `order`, and its `history` over the time in `given`, or why it is not known."""

    order: Sequence[Mapping[str, Any]] | None
    history: Mapping[str, Any] | str
    given: Mapping[str, str]


def queue(cluster: Cluster, templates: Templates, scope: Scope, name: str, said: QueueFacts) -> Page | None:
    """Return the page of one queue. Without the scheduler's order, it shows the waiting Jobs in the order written last."""
    record = cluster.queues.get(Key("", name))
    if record is None:
        return None
    own = [each for each in cluster.all_groups if each.spec.queue == name]
    waiting = [each for each in own if each.status.phase in WAITING_PHASES]
    at_work = [each for each in own if each.status.phase in RUNNING_PHASES]
    at_work.sort(key=lambda each: each.metadata.creation_timestamp or "")
    title, order = "Waiting, in the order of the scheduler", said.order
    if order is None:
        order, has_places = stored_order(map(as_object, own), name, cluster.now())
        title = (
            "Waiting, in the order that the scheduler wrote last" if has_places else "Waiting, oldest first: no order is known"
        )
    draw, listed = templates.macro("queues.html", "bars"), templates.macro("queues.html", "gangs")
    rows = _rows(cluster, [as_object(record)])
    sections = [
        Section("bars", draw(draw_queues(f"Queue {name}", rows))),
        *_budget(cluster, templates, as_object(record)),
        Section("time", templates.macro("queues.html", "over_time")(*_over_time(name, said.history, said.given))),
        Section("order", listed(title, *_listed(cluster, order, waiting, scope))),
        Section("holders", listed("Running", *_listed(cluster, list(map(_running, enumerate(at_work, 1))), at_work, scope))),
    ]
    return Page(f"Queue {name}", "queues", sections)


def _budget(cluster: Cluster, templates: Templates, document: dict[str, Any]) -> list[Section]:
    """Return the section with the queue's budget. Empty when the queue has no budget."""
    names = ("limitHours", "spentHours", "doubtfulHours", "leftHours", "hoursPerDay")
    rows = [
        {**row, "hours": ["–" if (hours := row.get(name)) is None else signed_hours(hours) for name in names]}
        for row in budget_rows([document], cluster.now())
    ]
    return [Section("budget", templates.macro("queues.html", "budgets")(rows))] if rows else []


MOST_POINTS: Final = 288
AMOUNTS: Final = ("allocated", "deserved", "used", "waiting")


def _spark(row: Mapping[str, Any], series: Mapping[str, Any] | None) -> Picture | None:
    return None if series is None else sparkline(f"{row['name']}: allocated in the last day", series["allocated"])


def _over_time(
    name: str, history: Mapping[str, Any] | str, given: Mapping[str, str]
) -> tuple[Picture | None, list[dict[str, Any]], list[str], Mapping[str, str], str]:
    """Return the chart of one resource of a queue, its values as rows, the resources, the choice, and what is missing."""
    if isinstance(history, str):
        return None, [], [], given, history
    found = {each["resource"]: each for each in history["queues"]}
    resources = sorted(found, key=lambda each: ("/" not in each, each))
    resource = given.get("resource") or next(iter(resources), "")
    if resource not in found:
        return None, [], resources, given, f"nothing of {resource[:64] or 'this queue'} is recorded in that time"
    unit, times, series = (1024 if is_in_mebibytes(resource) else 1000), history["times"], found[resource]
    every = -(-len(times) // MOST_POINTS)
    times, lines = times[::every], {each: _thinned(series[each], every, unit) for each in AMOUNTS}
    lost = next((each["pods"] for each in history["evictions"]), [None] * len(times))
    away = next((each["away"] for each in history.get("nodes", ()) if not each["resource"]), [None] * len(times))
    events: dict[int, list[str]] = {}
    for at, pods in enumerate(lost):
        if pods:
            events.setdefault(at, []).append(f"{pods} pods evicted")
    for at, (before, after) in enumerate(pairwise(away), 1):
        if before is not None and after is not None and round(before / 1000) != round(after / 1000):
            events.setdefault(at, []).append(f"{round(after / 1000)} nodes away instead of {round(before / 1000)}")
    for word in ("deserved", "guarantee", "capability"):
        for at, (before, after) in enumerate(pairwise(series[word]), 1):
            if before is not None and after is not None and before != after:
                events.setdefault(at, []).append(f"{word} {after / unit:g} instead of {before / unit:g}")
    said: dict[int, str] = {}
    for at, each in sorted(events.items()):
        said[at // every] = ", ".join(filter(None, (said.get(at // every, ""), *each)))
    word = "GiB of memory" if is_in_mebibytes(resource) else resource
    picture = chart(f"{name}: {word}", times, lines, sorted(said.items()))
    rows = [{"at": time, **{each: lines[each][at] for each in AMOUNTS}} for at, time in enumerate(times)]
    rows = [{**row, "event": said.get(at, "")} for at, row in enumerate(rows)]
    return picture, rows[::-1], resources, {**given, "resource": resource}, ""


def _thinned(values: Sequence[float | None], every: int, unit: int) -> list[float | None]:
    """Return the means of `every` values each, of those that are known."""
    parts = ([each for each in values[at : at + every] if each is not None] for at in range(0, len(values), every))
    return [sum(part) / len(part) / unit if part else None for part in parts]


def _groups(cluster: Cluster) -> list[dict[str, Any]]:
    return [
        {
            "metadata": {"creationTimestamp": each.metadata.creation_timestamp or ""},
            "spec": {"queue": each.spec.queue},
            "status": {"phase": each.status.phase},
        }
        for each in cluster.all_groups
    ]


def _rows(cluster: Cluster, documents: list[dict[str, Any]]) -> list[dict[str, Any]]:
    groups = _groups(cluster)
    now = cluster.now()
    return [
        {**row, "oldestTime": "" if row["oldestSeconds"] is None else format_time(now - row["oldestSeconds"])}
        for row in queue_rows(documents, groups, now, is_tree=True)
    ]


def _running(numbered: tuple[int, ShownGroup]) -> dict[str, Any]:
    """Return a running PodGroup in the form of a row of the scheduler's order."""
    position, group = numbered
    metadata = group.metadata
    return {
        "position": position,
        "namespace": metadata.namespace,
        "name": job_of(as_object(group)) or metadata.name,
        "code": "",
        "asks": main_resources(group.spec.min_resources or {}),
        "created": metadata.creation_timestamp or "",
    }


SHOWN_OF_ORDER: Final = frozenset({"position", "namespace", "name", "code", "asks", "created"})


def _listed(
    cluster: Cluster, order: Sequence[Mapping[str, Any]], groups: Sequence[ShownGroup], scope: Scope
) -> tuple[list[dict[str, Any]], int, int]:
    """Return the first Jobs of an order that may be named, and how many more of `groups` may be named, and are hidden.

    The order may have PodGroups of Kubernetes besides these groups.
    """
    seen = [each for each in order if each["namespace"] is not None and scope.sees(each["namespace"])]
    jobs = {(row.namespace, row.name): row for row in cluster.table.rows}
    rows = []
    for each in seen[:SHOWN]:
        said = {"uid": "", "code": "", "priority": "", "asks": {}, "created": "", "start": ()}
        if job := jobs.get((each["namespace"], each["name"])):
            said = {name: getattr(job, name) for name in said}
        rows.append({**said, **{name: value for name, value in each.items() if value and name in SHOWN_OF_ORDER}})
    visible = sum(scope.sees(each.metadata.namespace) for each in groups)
    return rows, max(len(seen), visible) - len(rows), max(len(order) - len(seen), len(groups) - visible)
