"""The policies of the topology manager: whether a node admits the containers of a pod, and with which CPUs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, NamedTuple

from pyroclast.api.enums import NumaPolicy
from pyroclast_scheduler.plugins.numa_aware.assignment import NONE, take_near
from pyroclast_scheduler.plugins.numa_aware.hints import best
from pyroclast_scheduler.plugins.numa_aware.topology import Layout

ALIGNING: Final = frozenset({NumaPolicy.BEST_EFFORT, NumaPolicy.RESTRICTED, NumaPolicy.SINGLE_NUMA_NODE})
"""The policies for which NUMA nodes matter."""


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
    """Return whether a pod would be admitted, without calculating the CPUs of its last container.

    A container that is admitted without CPUs counts as spread over the whole node.
    """
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
