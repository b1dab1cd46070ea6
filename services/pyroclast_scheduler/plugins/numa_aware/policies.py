"""The policies of the topology manager: whether a node admits the containers of a pod, and with which CPUs.

The topology manager enumerates and merges all sets of NUMA nodes. For CPUs alone, its result can be calculated directly, so that
machines with many NUMA nodes cost no more.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, NamedTuple

from pyroclast.api.enums import NumaPolicy
from pyroclast_scheduler.plugins.numa_aware.topology import NONE, Layout, take_near

ALIGNING: Final = frozenset({NumaPolicy.BEST_EFFORT, NumaPolicy.RESTRICTED, NumaPolicy.SINGLE_NUMA_NODE})
"""The policies for which NUMA nodes matter."""


class Hint(NamedTuple):
    """A set of NUMA nodes, as bits. `is_preferred`: whether even an empty node would need as many NUMA nodes."""

    nodes: int
    is_preferred: bool


def best(room: Sequence[int], totals: Sequence[int], count: int) -> Hint:
    """Return the hint that the topology manager would merge to, for free CPUs by NUMA node. `count` 0 means no preference."""
    everywhere = (1 << len(totals)) - 1
    if count == 0:
        return Hint(everywhere, is_preferred=True)
    nodes = narrowest(room, count)
    if nodes is None:
        return Hint(everywhere, is_preferred=False)
    return Hint(nodes, is_preferred=nodes.bit_count() == _fewest(totals, count))


def narrowest(room: Sequence[int], count: int) -> int | None:
    """Return the smallest set of NUMA nodes, of equals the lowest, with `count` free CPUs; None if there is none."""
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


class Examined(NamedTuple):
    """Whether the topology manager of a node would admit a pod.

    `failed`: the index of the first container that is not admitted, None if all are. `spread`: the number of NUMA nodes.
    """

    failed: int | None
    spread: int


def admitted(policy: str, layout: Layout, free: int, count: int) -> int | None:
    """Return the NUMA nodes that the topology manager chooses for a container with `count` CPUs; None if it rejects it."""
    hint = best(layout.room(free), layout.totals, count)
    match policy:
        case NumaPolicy.RESTRICTED:
            is_admitted = hint.is_preferred
        case NumaPolicy.SINGLE_NUMA_NODE:
            is_admitted = hint.is_preferred and (count == 0 or hint.nodes.bit_count() == 1)
        case _:
            is_admitted = True
    return hint.nodes if is_admitted else None


def assigned(policy: str, layout: Layout, free: int, counts: Sequence[int]) -> tuple[int, ...] | None:
    """Return the CPUs of each container, one after another; None if a container is not admitted.

    With best-effort, a container may be admitted although there are too few CPUs. Such a container gets none.
    """
    found: list[int] = []
    for count in counts:
        nodes = admitted(policy, layout, free, count)
        if nodes is None:
            return None
        taken = take_near(layout, free, nodes, count) or NONE
        free &= ~taken
        found.append(taken)
    return tuple(found)


def examined(policy: str, layout: Layout, free: int, counts: Sequence[int]) -> Examined:
    """Return whether a pod would be admitted. A container that is admitted without CPUs counts as spread over the whole node."""
    touched = 0
    last = max((at for at, count in enumerate(counts) if count), default=-1)
    for at, count in enumerate(counts):
        nodes = admitted(policy, layout, free, count)
        if nodes is None:
            return Examined(at, 0)
        if count == 0:
            continue
        if at == last or count > free.bit_count():
            touched |= nodes  # all NUMA nodes of a minimal set are used
            continue
        taken = take_near(layout, free, nodes, count) or NONE
        free &= ~taken
        touched |= layout.touched(taken)
    return Examined(None, touched.bit_count())
