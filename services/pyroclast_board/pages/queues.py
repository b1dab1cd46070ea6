"""The pages of queues and flows.

Queues are a tree with a bar for each resource; one queue shows its waiting Jobs in order, one flow its graph.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from pyroclast.api.types import Key
from pyroclast.lifecycle.times import format_time
from pyroclast.views.flows import draw_flow, flow_rows
from pyroclast.views.jobs import WAITING_PHASES
from pyroclast.views.queues import budget_rows, draw_queues, queue_rows, signed_hours
from pyroclast.views.readable import main_resources
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


def queues(cluster: Cluster, templates: Templates) -> Page:
    """Return the page of all queues. The page names no Job, so that all viewers see the same page."""
    shares = _rows(cluster, [as_object(each) for each in cluster.queues.values()])
    draw, row = templates.macro("queues.html", "bars"), templates.macro("queues.html", "row")
    rows = tuple((f"queue-{each['name']}-{each['resource']}", row(each)) for each in shares)
    picture = Section("bars", draw(draw_queues("Queues", shares)))
    return Page("Queues", "queues", [picture, Section("queues", head=templates.macro("queues.html", "head")(), rows=rows)])


def queue(
    cluster: Cluster, templates: Templates, scope: Scope, name: str, order: Sequence[Mapping[str, Any]] | None
) -> Page | None:
    """Return the page of one queue. Without the scheduler's `order`, it shows the waiting Jobs by priority and age."""
    record = cluster.queues.get(Key("", name))
    if record is None:
        return None
    own = [each for each in cluster.groups.values() if each.spec.queue == name]
    waiting = sorted((each for each in own if each.status.phase in WAITING_PHASES), key=_rank)
    at_work = sorted((each for each in own if each.status.phase in {"Running", "Unknown"}), key=_rank)
    title = "Waiting, by priority and age" if order is None else "Waiting, in the order of the scheduler"
    places = list(enumerate(waiting, 1)) if order is None else _placed(waiting, order)
    draw, listed = templates.macro("queues.html", "bars"), templates.macro("queues.html", "gangs")
    rows = _rows(cluster, [as_object(record)])
    sections = [
        Section("bars", draw(draw_queues(f"Queue {name}", rows))),
        *_budget(cluster, templates, as_object(record)),
        Section("order", listed(title, *_named(cluster, places, waiting, scope))),
        Section("holders", listed("Running", *_named(cluster, list(enumerate(at_work, 1)), at_work, scope))),
    ]
    return Page(f"Queue {name}", "queues", sections)


def _placed(groups: Sequence[ShownGroup], order: Sequence[Mapping[str, Any]]) -> list[tuple[int, ShownGroup]]:
    """Return the PodGroups that the order names, with their positions."""
    positions = {(each["namespace"], each["name"]): int(each["position"]) for each in order}
    pairs = [(positions.get((each.metadata.namespace, _name(each))), each) for each in groups]
    return sorted(((at, each) for at, each in pairs if at is not None), key=lambda pair: pair[0])


def _name(group: ShownGroup) -> str:
    owner = group.metadata.controller
    return owner.name if owner is not None else group.metadata.name


def _budget(cluster: Cluster, templates: Templates, document: dict[str, Any]) -> list[Section]:
    """Return the section with the queue's budget. Empty when the queue has no budget."""
    names = ("limitHours", "spentHours", "doubtfulHours", "leftHours", "hoursPerDay")
    rows = [
        {**row, "hours": ["–" if (hours := row.get(name)) is None else signed_hours(hours) for name in names]}
        for row in budget_rows([document], cluster.now())
    ]
    return [Section("budget", templates.macro("queues.html", "budgets")(rows))] if rows else []


def _rows(cluster: Cluster, documents: list[dict[str, Any]]) -> list[dict[str, Any]]:
    groups = [
        {
            "metadata": {"creationTimestamp": each.metadata.creation_timestamp or ""},
            "spec": {"queue": each.spec.queue},
            "status": {"phase": each.status.phase},
        }
        for each in cluster.groups.values()
    ]
    now = cluster.now()
    return [
        {**row, "oldestTime": "" if row["oldestSeconds"] is None else format_time(now - row["oldestSeconds"])}
        for row in queue_rows(documents, groups, now, is_tree=True)
    ]


def _rank(group: ShownGroup) -> tuple[int, str, str, str]:
    metadata = group.metadata
    return -group.spec.priority, metadata.creation_timestamp or "", metadata.namespace, metadata.name


def _named(
    cluster: Cluster, places: Sequence[tuple[int, ShownGroup]], groups: Sequence[ShownGroup], scope: Scope
) -> tuple[list[dict[str, Any]], int, int]:
    """Return the first visible PodGroups with their positions, and how many more of `groups` are visible, and hidden."""
    rows = []
    for position, group in [pair for pair in places if scope.sees(pair[1].metadata.namespace)][:SHOWN]:
        owner = group.metadata.controller
        job = cluster.table.row(owner.uid) if owner is not None else None
        rows.append(
            {
                "position": position,
                "namespace": group.metadata.namespace,
                "name": _name(group),
                "uid": "" if job is None else job.uid,
                "code": "" if job is None else job.code,
                "priority": group.spec.priority,
                "asks": main_resources(group.spec.min_resources or {}),
                "created": group.metadata.creation_timestamp or "",
            }
        )
    visible = sum(scope.sees(each.metadata.namespace) for each in groups)
    return rows, visible - len(rows), len(groups) - visible
