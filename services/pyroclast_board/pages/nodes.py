"""The page of nodes: a heat map by network tier or label, silent nodes, what becomes free when, and the reservations."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import Any, Final
from urllib.parse import quote

from pyroclast.api.records import HyperNode
from pyroclast.lifecycle.hypernodes.discovered import member_names
from pyroclast.lifecycle.times import format_time
from pyroclast.pictures.heat_map import Cell, heat_map
from pyroclast.pictures.svg import Picture
from pyroclast.pictures.timeline import Lane, Span, timeline
from pyroclast.resources.quantity import ZERO, Quantity
from pyroclast.views.nodes import first_hole, free_steps, read_hole
from pyroclast.views.nodes import state_of as node_state
from pyroclast.views.readable import amount, natural_order, ranges_of, readable
from pyroclast_board.cluster.cluster import Cluster
from pyroclast_board.cluster.jobs import as_object
from pyroclast_board.cluster.records import ShownNode
from pyroclast_board.pages.base import BadRequest, Ends, Page, Scope, Section, Templates, checked
from pyroclast_board.pages.jobs import is_silent
from pyroclast_board.pages.overview import is_away

PARAMETERS: Final = ("resource", "by", "job", "hole")
NO_GROUP: Final = "–"
MOST_CELLS: Final = 5_000
MOST_LANES: Final = 64
MOST_AWAY: Final = 100
MOST_JOBS: Final = 8
LONGEST_SECONDS: Final = 7 * 86_400
STAGES: Final = {"nothing free": "#fc8181", "partly free": "#faf089", "free": "#68d391", "kept": "#63b3ed", "away": "#a0aec0"}
"""What is free on a node. Each bar also shows the free amount as a number."""


def nodes(cluster: Cluster, templates: Templates, scope: Scope, query: Mapping[str, str], ends: Ends | None) -> Page:
    """Return the page of nodes. `ends`: None when the scheduler does not answer."""
    given = checked(query, PARAMETERS)
    shown = sorted(cluster.nodes.values(), key=lambda each: natural_order(each.metadata.name))[:MOST_CELLS]
    resources = _resources(shown)
    resource = given.get("resource") or next(iter(resources), "cpu")
    if resources and resource not in resources:
        raise BadRequest(f'resource: no node has "{resource[:64]}"; there are {", ".join(resources)}')
    groups = _groups(cluster, shown, given.get("by", ""))
    outlined = _outlined(cluster, scope, given.get("job", ""))
    kept = cluster.kept_nodes
    cells = {name: [_cell(cluster, node, resource, outlined, kept) for node in members] for name, members in groups.items()}
    labels = sorted({label for node in shown for label in node.metadata.labels})
    of = "nodes.html"
    rows = [_row(cluster, name, members, resource) for name, members in groups.items()]
    sections = [
        Section("choice", templates.macro(of, "choice")(given, resource, resources, labels[:100], bool(cluster.hyper_nodes))),
        Section("map", templates.macro(of, "heat")(resource, heat_map(f"{resource}: free share of each node", cells))),
        Section("away", templates.macro(of, "away")(*_away(cluster, scope))),
        Section("plan", templates.macro(of, "plan")(resource, *_plan(cluster, shown, resource, ends, given.get("hole", "")))),
        Section("groups", templates.macro(of, "groups")(rows, resource), is_half=True),
        Section("reservations", templates.macro(of, "reservations")(*_reservations(cluster, scope)), is_half=True),
    ]
    return Page("Nodes", "nodes", sections)


def _resources(members: list[ShownNode]) -> list[str]:
    """Return the names of the resources, devices first because users look for them most."""
    names = {name for node in members for name, value in node.status.allocatable.items() if amount(value) != ZERO}
    return sorted(names - {"pods"}, key=lambda name: ("/" not in name, name))


def _groups(cluster: Cluster, members: list[ShownNode], by: str) -> dict[str, list[ShownNode]]:
    """Group nodes by the value of a label. Without a label, group them by HyperNodes of the lowest tier, if there are any.

    The name of a HyperNode group includes the HyperNodes above it.
    """
    names: dict[str, str] = {}
    if not by and len(cluster.hyper_nodes):
        labels = {node.metadata.name: node.metadata.labels for node in members}
        lowest = min(each.spec.tier for each in cluster.hyper_nodes.values())
        for hyper in cluster.hyper_nodes.values():
            if hyper.spec.tier == lowest:
                names |= dict.fromkeys(member_names(hyper, labels), _path(cluster, hyper))
    elif by:
        names = {node.metadata.name: node.metadata.labels[by] for node in members if by in node.metadata.labels}
    groups: dict[str, list[ShownNode]] = {}
    for node in members:
        groups.setdefault(names.get(node.metadata.name, NO_GROUP), []).append(node)
    return dict(sorted(groups.items(), key=lambda each: natural_order(each[0])))


def _path(cluster: Cluster, hyper: HyperNode) -> str:
    """Return the names of a HyperNode and of its ancestors, from the top: `row-1 / rack-3`."""
    own = {hyper.metadata.name: hyper.metadata.labels}
    above = [
        each for each in cluster.hyper_nodes.values() if each.spec.tier > hyper.spec.tier and member_names(each, own) & own.keys()
    ]
    if not above:
        return hyper.metadata.name
    nearest = min(above, key=lambda each: (each.spec.tier, each.metadata.name))
    return f"{_path(cluster, nearest)} / {hyper.metadata.name}"


def _outlined(cluster: Cluster, scope: Scope, job: str) -> frozenset[str]:
    """Return the nodes of a Job. Empty when the viewer may not see the Job."""
    row = cluster.table.row(job)
    return frozenset(cluster.books.nodes_of(job)) if row is not None and scope.sees(row.namespace) else frozenset()


def _cell(cluster: Cluster, node: ShownNode, resource: str, outlined: frozenset[str], kept: set[str]) -> Cell:
    name = node.metadata.name
    is_outlined, is_kept = name in outlined, name in kept
    total, free = amount(node.status.allocatable.get(resource, 0)), cluster.books.free(node).get(resource, ZERO)
    if is_away(node):
        return Cell(name, None, "takes no pods", is_outlined, is_kept, node_url(name))
    share = float(free) / float(total) if total != ZERO else None
    title = f"{readable(resource, free)} of {readable(resource, total)} {resource} free, {cluster.books.pods(name)} pods"
    return Cell(name, share, f"{title}, kept for a Job" if is_kept else title, is_outlined, is_kept, node_url(name))


def _row(cluster: Cluster, name: str, members: list[ShownNode], resource: str) -> dict[str, Any]:
    ready = [node for node in members if not is_away(node)]
    free = [cluster.books.free(node).get(resource, ZERO) for node in ready]
    return {
        "group": name,
        "nodes": len(members),
        "away": len(members) - len(ready),
        "free": readable(resource, sum(free, ZERO)),
        "largest": readable(resource, max(free, default=ZERO)),
        "pods": sum(cluster.books.pods(node.metadata.name) for node in members),
    }


def _reservations(cluster: Cluster, scope: Scope) -> tuple[list[dict[str, Any]], int]:
    """Return the reservations for Jobs that the viewer may see, and the number of nodes that are reserved for other Jobs."""
    seen = [each for each in cluster.reservations if scope.sees(each.namespace)]
    rows = [
        {
            "job": f"{each.namespace}/{each.job}",
            "nodes": sorted(each.nodes, key=natural_order),
            "promise": "" if each.promise is None else format_time(each.promise),
        }
        for each in sorted(seen, key=lambda each: (each.namespace, each.job))
    ]
    return rows, sum(len(each.nodes) for each in cluster.reservations if not scope.sees(each.namespace))


def node_url(name: str) -> str:
    """Return the URL of the page of a node."""
    return f"/nodes/{quote(name, safe='')}"


def _away(cluster: Cluster, scope: Scope) -> tuple[list[dict[str, Any]], int]:
    """Return the nodes that accept no pods, with the Jobs on them, those that are not ready first.

    `hidden` counts the Jobs that the viewer may not see.
    """
    away = [each for each in cluster.nodes.values() if is_away(each)]
    away.sort(key=lambda each: (is_silent(each) is None, each.key))
    owners: dict[str, set[str]] = {node.metadata.name: set() for node in away[:MOST_AWAY]}
    for _, name, _, owner in cluster.books.held():
        if name in owners:
            owners[name].add(owner)
    rows = []
    for node in away[:MOST_AWAY]:
        found = [row for owner in sorted(owners[node.metadata.name]) if (row := cluster.table.row(owner)) is not None]
        jobs = [row for row in found if scope.sees(row.namespace)]
        rows.append({
            "name": node.metadata.name,
            "state": node_state(as_object(node)),
            "since": is_silent(node) or "",
            "jobs": jobs[:MOST_JOBS],
            "more": max(0, len(jobs) - MOST_JOBS),
            "hidden": len(found) - len(jobs),
        })  # fmt: skip
    return rows, len(away) - len(rows)


def releases_of(cluster: Cluster, ends: Ends | None, resource: str) -> dict[str, list[tuple[float | None, Quantity]]]:
    """Return by node when each of its pods ends, None if that is not known, and how much of a resource the pod holds."""
    released: dict[str, list[tuple[float | None, Quantity]]] = {}
    for _, node, requests, owner in cluster.books.held():
        if held := requests.get(resource):
            job = cluster.table.row(owner)
            end = None if job is None or ends is None else ends.get((job.namespace, job.name))
            released.setdefault(node, []).append((None if end is None else end[0], held))
    return released


def _plan(
    cluster: Cluster, shown: list[ShownNode], resource: str, ends: Ends | None, hole: str
) -> tuple[Picture | None, int, dict[str, Any]]:
    """Return the picture of what becomes free when, the number of lanes that are not drawn, and when there is a hole.

    Nodes that are alike share a lane.
    """
    now, released, kept = cluster.now(), releases_of(cluster, ends, resource), cluster.kept_nodes
    likeness: dict[tuple[Any, ...], list[str]] = {}
    steps_of: dict[str, list[tuple[float, Quantity]]] = {}
    for node in shown:
        name, total = node.metadata.name, amount(node.status.allocatable.get(resource, 0))
        if total == ZERO:
            continue
        steps = free_steps(cluster.books.free(node).get(resource, ZERO), released.get(name, ()), now)
        stage = "away" if is_away(node) else "kept" if name in kept else ""
        if not stage:
            steps_of[name] = steps
        likeness.setdefault((stage, total, *((round(at, -1), free) for at, free in steps)), []).append(name)
    known = [at for key in likeness for at, _ in key[2:]]
    whole = min(LONGEST_SECONDS, max(3600.0, 1.2 * max(known, default=0.0)))
    lanes = [_lane(names, resource, *key[:2], steps=key[2:], whole=whole) for key, names in likeness.items()]
    picture = timeline(f"{resource}: what becomes free when", lanes[:MOST_LANES], STAGES) if lanes else None
    unknown = sum(until is None for each in released.values() for until, _ in each)
    said: dict[str, Any] = {"hole": hole, "asked": hole != "", "unknown": unknown, "at": None, "has_ends": ends is not None}
    if hole:
        wanted = read_hole(hole)
        if wanted is None:
            raise BadRequest(f'hole: "{hole[:64]}" is no number of nodes and amount on each, such as 4x8')
        seconds = first_hole(steps_of.values(), *wanted)
        said |= {"count": wanted[0], "amount": wanted[1], "at": None if seconds is None else format_time(now + seconds)}
        said["is_now"] = seconds == 0
    return picture, max(0, len(lanes) - MOST_LANES), said


def _lane(
    names: list[str], resource: str, stage: str, total: Quantity, *, steps: Sequence[tuple[float, Quantity]], whole: float
) -> Lane:
    spans = []
    for (at, free), (end, _) in pairwise([*steps, (whole, ZERO)]):
        word = stage or ("nothing free" if free <= ZERO else "free" if free == total else "partly free")
        if at < end:
            spans.append(Span(word, min(at, whole), min(end, whole), f"{readable(resource, max(free, ZERO))} free"))
    return Lane(ranges_of(names), tuple(spans), node_url(names[0]) if len(names) == 1 else "")
