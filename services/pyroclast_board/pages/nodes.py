"""The page of nodes: a heat map of free resources by network tier or label, and the reservations."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from pyroclast.api.records import HyperNode
from pyroclast.lifecycle.hypernodes.discovered import member_names
from pyroclast.lifecycle.times import format_time
from pyroclast.pictures.heat_map import Cell, heat_map
from pyroclast.resources.quantity import ZERO
from pyroclast.views.readable import amount, natural_order, readable
from pyroclast_board.cluster.cluster import Cluster
from pyroclast_board.cluster.records import ShownNode
from pyroclast_board.pages.base import BadRequest, Page, Scope, Section, Templates, checked
from pyroclast_board.pages.overview import is_away

PARAMETERS: Final = ("resource", "by", "job")
NO_GROUP: Final = "–"
MOST_CELLS: Final = 5_000


def nodes(cluster: Cluster, templates: Templates, scope: Scope, query: Mapping[str, str]) -> Page:
    """Return the page of nodes."""
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
        return Cell(name, None, "takes no pods", is_outlined, is_kept)
    share = float(free) / float(total) if total != ZERO else None
    title = f"{readable(resource, free)} of {readable(resource, total)} {resource} free, {cluster.books.pods(name)} pods"
    return Cell(name, share, f"{title}, kept for a Job" if is_kept else title, is_outlined, is_kept)


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
