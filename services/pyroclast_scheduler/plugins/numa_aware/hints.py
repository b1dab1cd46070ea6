"""The NUMA nodes for a container: the smallest set with enough free CPUs, preferred if even an empty node needs as many.

The topology manager enumerates and merges all sets of NUMA nodes. For CPUs alone, its result can be calculated directly, so that
machines with many NUMA nodes cost no more.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple


class Hint(NamedTuple):
    """A set of NUMA nodes, as bits. `is_preferred`: whether even an empty node would need as many NUMA nodes."""

    nodes: int
    is_preferred: bool


def best(room: Sequence[int], totals: Sequence[int], count: int) -> Hint:
    """Return the hint that the topology manager would merge to.

    Args:
        room: the free CPUs by NUMA node.
        totals: all CPUs by NUMA node.
        count: the number of CPUs; 0 means no preference.
    """
    everywhere = (1 << len(totals)) - 1
    if count == 0:
        return Hint(everywhere, is_preferred=True)
    nodes = narrowest(room, count)
    if nodes is None:
        return Hint(everywhere, is_preferred=False)
    return Hint(nodes, is_preferred=nodes.bit_count() == _fewest(totals, count))


def narrowest(room: Sequence[int], count: int) -> int | None:
    """Return the smallest set of NUMA nodes with `count` free CPUs; None if there is none.

    Among equal sets, the one with the lowest numbers is returned.
    """
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
    """Return how many NUMA nodes are needed at least; all of them if even these are too few."""
    found = 0
    for size, each in enumerate(sorted(room, reverse=True), 1):
        found += each
        if found >= count:
            return size
    return len(room)
