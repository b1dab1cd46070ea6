"""The division of the resources of all nodes over a time into allocated, reserved, idle and down. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Any

import orjson


def cluster_rows(
    states: Iterable[Mapping[str, Any]], allocated: Mapping[str, int], reserved: Mapping[str, int], since: int, until: int
) -> list[dict[str, Any]]:
    """Return a row for each resource: `allocated + reserved + idle + down == total`, in amounts × seconds.

    Args:
        states: the states of all nodes, ordered by node and time. Each state is valid until the next state of the node.
        allocated: the amounts that pods held, by resource.
        reserved: the amounts that were free on reserved nodes, by resource.
        since: the start, in seconds since the epoch.
        until: the end, in seconds since the epoch.

    Amounts that pods held on a node that was down count as allocated. Amounts that pods held before their node was recorded are
    part of the total.
    """
    total: Counter[str] = Counter()
    down: Counter[str] = Counter()
    before: Mapping[str, Any] | None = None
    for state in (*states, None):
        if before is not None:
            end = until if state is None or state["uid"] != before["uid"] else min(until, state["at"])
            seconds = max(0, end - max(since, before["at"]))
            for name, amount in orjson.loads(before["allocatable"]).items():
                total[name] += amount * seconds
                down[name] += amount * seconds if before["is_down"] else 0
        before = state
    rows = []
    for name in sorted(total | Counter(allocated)):
        held = allocated.get(name, 0)
        whole = max(total[name], held)
        lost = min(down[name], whole - held)
        kept = min(reserved.get(name, 0), whole - held - lost)
        rest = {"reserved": kept, "idle": whole - held - lost - kept, "down": lost, "total": whole}
        rows.append({"resource": name, "allocated": held, **rest})
    return rows
