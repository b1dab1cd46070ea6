"""Which NUMA nodes a container should be on: the narrowest set with enough free CPUs, preferred if no machine could do better.

The topology manager enumerates every set of NUMA nodes and merges; with CPUs alone to place, what it ends with can be found at
once, so that machines with many NUMA nodes cost no more.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

__all__ = ["Hint", "best", "narrowest"]


class Hint(NamedTuple):
    """A set of NUMA nodes, as bits. `is_preferred`: no smaller set would do, however empty the node were."""

    nodes: int
    is_preferred: bool


def best(room: Sequence[int], totals: Sequence[int], count: int) -> Hint:
    """The hint that the topology manager merges to.

    Args:
        room: free CPUs by NUMA node.
        totals: CPUs by NUMA node, free or not.
        count: how many CPUs; 0: no preference.
    """
    everywhere = (1 << len(totals)) - 1
    if count == 0:
        return Hint(everywhere, is_preferred=True)
    nodes = narrowest(room, count)
    if nodes is None:
        return Hint(everywhere, is_preferred=False)
    return Hint(nodes, is_preferred=nodes.bit_count() == _fewest(totals, count))


def narrowest(room: Sequence[int], count: int) -> int | None:
    """The smallest set of NUMA nodes with `count` free CPUs, of several that with the lowest numbers; None if there is none."""
    if sum(room) < count:
        return None
    size = _fewest(room, count)
    nodes = 0
    for at in range(len(room) - 1, -1, -1):
        if size == 0:
            break
        if sum(sorted(room[:at], reverse=True)[:size]) < count:
            nodes |= 1 << at
            size -= 1
            count -= room[at]
    return nodes


def _fewest(room: Sequence[int], count: int) -> int:
    """How many NUMA nodes it takes at least; all of them where they do not do either."""
    found = 0
    for size, each in enumerate(sorted(room, reverse=True), 1):
        found += each
        if found >= count:
            return size
    return len(room)
