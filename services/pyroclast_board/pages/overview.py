"""The first page: waiting Jobs by cause, running and failed Jobs, free resources, and whether all services run."""

from __future__ import annotations

from collections import Counter
from datetime import datetime
from typing import Any, Final

from pyroclast.pictures.resource_bars import ResourceBar, resource_bars
from pyroclast.pictures.svg import Picture
from pyroclast.resources.quantity import ZERO, Quantity
from pyroclast.views.readable import amount
from pyroclast_board.cluster.cluster import Cluster
from pyroclast_board.cluster.records import ShownNode
from pyroclast_board.pages.base import Page, Section, Templates, shown_amount
from pyroclast_board.pages.filters import state_of

DAY: Final = 86_400
SHOWN: Final = 12


def overview(cluster: Cluster, templates: Templates) -> Page:
    """Return the first page. The page names no Job, so that all viewers see the same page."""
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
    sections = [
        Section(name, templates.macro("overview.html", name)(values), is_half=name != "jobs")
        for name in ("jobs", "waiting", "failures", "resources", "services")
    ]
    return Page("Overview", "overview", sections)


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
