"""The limits, allocations and waiting Jobs of queues."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any, Final

from pyroclast.views.documents import Row
from pyroclast.views.jobs import WAITING_PHASES, Group, seconds_since
from pyroclast.views.readable import amount, main_resources, readable

ROOT: Final = "root"
INDENT: Final = "  "


def in_tree_order(queues: Sequence[Mapping[str, Any]]) -> list[tuple[int, Mapping[str, Any]]]:
    """Return the queues with their depth: each behind its parent, siblings by name.

    A queue with an unknown parent is at the top.
    """
    names = {queue["metadata"]["name"] for queue in queues}
    below: dict[str, list[Mapping[str, Any]]] = {}
    for queue in sorted(queues, key=lambda each: str(each["metadata"]["name"])):
        name, parent = queue["metadata"]["name"], (queue.get("spec") or {}).get("parent") or ROOT
        below.setdefault(parent if parent in names and name != ROOT else "", []).append(queue)
    found: list[tuple[int, Mapping[str, Any]]] = []

    def visit(name: str, depth: int) -> None:
        for queue in below.pop(name, ()):
            found.append((depth, queue))
            visit(queue["metadata"]["name"], depth + 1)

    visit("", 0)
    # queues whose parents form a cycle, which admission refuses
    found += [(0, queue) for circle in below.values() for queue in circle]
    return found


def queue_rows(queues: Sequence[Mapping[str, Any]], groups: Sequence[Group], now: float, *, is_tree: bool) -> list[Row]:
    """Return a row for each queue and each of its allocated, limited or guaranteed resources. `now`: seconds since the epoch."""
    waiting: Counter[str] = Counter()
    running: Counter[str] = Counter()
    oldest: dict[str, str] = {}
    for group in groups:
        queue, phase = (group.get("spec") or {}).get("queue") or "default", (group.get("status") or {}).get("phase", "")
        if phase in WAITING_PHASES:
            waiting[queue] += 1
            created = group["metadata"]["creationTimestamp"]
            oldest[queue] = min(created, oldest.get(queue, created))
        elif phase in {"Running", "Unknown"}:
            running[queue] += 1
    ordered = (
        in_tree_order(queues) if is_tree else [(0, each) for each in sorted(queues, key=lambda q: str(q["metadata"]["name"]))]
    )
    rows: list[Row] = []
    for depth, queue in ordered:
        name = queue["metadata"]["name"]
        common = {
            "name": name,
            "label": INDENT * depth + name,
            "parent": (queue.get("spec") or {}).get("parent"),
            "weight": (queue.get("spec") or {}).get("weight", 0),
            "state": (queue.get("status") or {}).get("state"),
            "waiting": waiting[name],
            "running": running[name],
            "oldestSeconds": seconds_since(oldest[name], now) if name in oldest else None,
        }
        rows += [{**common, **each} for each in _resources(queue) or [{"resource": None}]]
    return rows


def _resources(queue: Mapping[str, Any]) -> list[Row]:
    spec, status = queue.get("spec") or {}, queue.get("status") or {}
    guarantee = (spec.get("guarantee") or {}).get("resource") or {}
    deserved, limit, allocated = spec.get("deserved") or {}, spec.get("capability") or {}, status.get("allocated") or {}
    used = {name for name, value in allocated.items() if amount(value)}
    names = main_resources(dict.fromkeys({*guarantee, *deserved, *limit, *used}, ""))
    rows: list[Row] = []
    for name in sorted(names):
        borrowed = amount(allocated.get(name, 0)) - amount(deserved[name]) if name in deserved else None
        rows.append(
            {
                "resource": name,
                "guarantee": _written(name, guarantee),
                "deserved": _written(name, deserved),
                "allocated": readable(name, allocated.get(name, 0)),
                "borrowed": None if borrowed is None else readable(name, max(borrowed, amount(0))),
                "limit": _written(name, limit),
            }
        )
    return rows


def _written(name: str, amounts: Mapping[str, Any]) -> str | None:
    return readable(name, amounts[name]) if name in amounts else None
