"""The policies of the topology manager: whether a node takes the containers of a pod, and with which CPUs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, NamedTuple

from pyroclast.api.enums import NumaPolicy
from pyroclast_scheduler.plugins.numa_aware.assignment import NONE, take_near
from pyroclast_scheduler.plugins.numa_aware.hints import best
from pyroclast_scheduler.plugins.numa_aware.topology import Layout

__all__ = ["ALIGNING", "Examined", "admitted", "assigned", "examined"]

ALIGNING: Final = frozenset({NumaPolicy.BEST_EFFORT, NumaPolicy.RESTRICTED, NumaPolicy.SINGLE_NUMA_NODE})
"""Policies under which NUMA nodes matter at all."""


class Examined(NamedTuple):
    """Whether the topology manager of a node would admit a pod.

    `failed`: the position of the first container that is not admitted, None if all are. `spread`: on how many NUMA nodes.
    """

    failed: int | None
    spread: int


def admitted(policy: str, layout: Layout, free: int, count: int) -> int | None:
    """The NUMA nodes that the topology manager chooses for a container of `count` CPUs; None where it refuses."""
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
    """The CPUs of each container, one after another; None where one is not admitted.

    A container that is admitted although there are too few CPUs, as best-effort does, gets none.
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
    """What would become of a pod, without working out the CPUs of its last container.

    Containers that would get no CPUs although they are admitted count as spread over the whole node.
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
            touched |= nodes  # a set that is as narrow as can be is used whole
            continue
        taken = take_near(layout, free, nodes, count) or NONE
        free &= ~taken
        touched |= layout.touched(taken)
    return Examined(None, touched.bit_count())
