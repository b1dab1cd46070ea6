"""The page of one node: its pods with their estimated ends, its devices, why pods are kept off it, and how often it went away."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from pyroclast.lifecycle.times import format_time
from pyroclast.pictures.timeline import Lane, Span, timeline
from pyroclast.resources.quantity import ZERO
from pyroclast.views.groups import queue_of_pod
from pyroclast.views.nodes import state_of
from pyroclast.views.readable import amount, main_resources
from pyroclast_board.cluster.cluster import Cluster
from pyroclast_board.cluster.details import JobDetails
from pyroclast_board.cluster.jobs import as_object
from pyroclast_board.cluster.records import ShownNode
from pyroclast_board.pages.base import Ends, Page, Scope, Section, Templates, shown_amount
from pyroclast_board.pages.job import event_row
from pyroclast_board.pages.jobs import is_silent
from pyroclast_board.pages.nodes import LONGEST_SECONDS

OF: Final = "node.html"
MOST_PODS: Final = 200
MOST_LANES: Final = 64
STAGES: Final = {"until its likely end": "#63b3ed", "end not known": "#a0aec0"}
WENT_AWAY: Final = "NodeNotReady"


def node(
    cluster: Cluster, templates: Templates, scope: Scope, record: ShownNode, *, ends: Ends | None, events: JobDetails
) -> Page:
    """Return the page of a node. `ends`: None when the scheduler does not answer. `events`: its Events."""
    name = record.metadata.name
    pods, hidden = _pods(cluster, scope, name, ends)
    flaps = sum(int(each.get("count") or 1) for each in events.events if each.get("reason") == WENT_AWAY)
    about = {
        "name": name,
        "state": state_of(as_object(record)),
        "silent": is_silent(record),
        "taints": [f"{each.key}={each.value}:{each.effect}" for each in record.spec.taints],
        "bad": [each for each in record.status.conditions if each.type != "Ready" and each.status == "True"],
        "kept": [
            f"{each.namespace}/{each.job}" if scope.sees(each.namespace) else "a Job of others"
            for each in cluster.reservations
            if name in each.nodes
        ],
        "flaps": flaps,
        "missing": events.missing,
    }
    free = cluster.books.free(record)
    total = {each: amount(value) for each, value in record.status.allocatable.items() if each != "pods" and amount(value) != ZERO}
    amounts = [
        (each, *(shown_amount(part, each) for part in (total[each], total[each] - free.get(each, ZERO), free.get(each, ZERO))))
        for each in sorted(total, key=lambda each: ("/" not in each, each))
    ]
    known = [each["until"] for each in pods if each["until"] is not None]
    now = cluster.now()
    whole = min(LONGEST_SECONDS, max(3600.0, 1.2 * max((until - now for until in known), default=0.0)))
    lanes = [_lane(each, now, whole) for each in pods[:MOST_LANES]]
    for each in pods:
        each["ends"] = "" if each["until"] is None else format_time(each["until"])
    drawn = timeline(f"Pods of {name}", lanes, STAGES) if lanes else None
    sections = [
        Section("node", templates.macro(OF, "about")(about), is_half=True),
        Section("amounts", templates.macro(OF, "amounts")(amounts), is_half=True),
        Section("pods", templates.macro(OF, "pods")(drawn, pods[:MOST_PODS], len(pods), hidden, ends is not None)),
        Section("events", templates.macro("job.html", "events")([event_row(each) for each in events.events], events.missing)),
    ]
    return Page(f"Node {name}", "nodes", sections)


def _pods(cluster: Cluster, scope: Scope, node: str, ends: Ends | None) -> tuple[list[dict[str, Any]], int]:
    """Return the pods on a node, the first to end first, and how many of them have no name, because they belong to others."""
    rows: list[dict[str, Any]] = []
    for key, name, requests, owner in cluster.books.held():
        if name != node:
            continue
        job, pod, is_seen = cluster.table.row(owner), cluster.pods.get(key), scope.sees(key.namespace)
        end = None if job is None or ends is None else ends.get((job.namespace, job.name))
        rows.append({
            "name": str(key) if is_seen else "",
            "job": job if is_seen else None,
            "phase": pod.status.phase if pod is not None else "",
            "queue": queue_of_pod({"annotations": pod.metadata.annotations}) or "" if pod is not None and is_seen else "",
            "asks": main_resources(requests),
            "created": pod.metadata.creation_timestamp if pod is not None else "",
            "until": None if end is None else end[0],
            "basis": "" if end is None else end[1],
        })  # fmt: skip
    rows.sort(key=lambda each: (each["until"] is None, each["until"] or 0.0, each["name"] == "", each["name"]))
    return rows, sum(not each["name"] for each in rows)


def _lane(pod: Mapping[str, Any], now: float, whole: float) -> Lane:
    is_known = pod["until"] is not None
    end = min(whole, max(1.0, pod["until"] - now)) if is_known else whole
    stage = "until its likely end" if is_known else "end not known"
    return Lane(pod["name"] or "a pod of others", (Span(stage, 0.0, end),))
