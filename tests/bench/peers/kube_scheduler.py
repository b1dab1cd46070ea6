"""Loads that kube-scheduler and our scheduler place alike: pods, and PodGroups of Kubernetes itself."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from pyroclast.api.types import PRIORITY_CLASSES
from tests.bench.peers.arena import Item, Side, Task
from tests.bench.peers.objects import gang, pods

ZONE = "zone"
ZONES = 10
IMPORTANT = "peers-important"
PRIORITIES = [Item(PRIORITY_CLASSES, {"metadata": {"name": IMPORTANT}, "value": 1000})]
SMALL, TENTH, WHOLE = "100m", "800m", "8"  # of a node of 8 cpus


@dataclass(frozen=True, slots=True)
class Load:
    """What is measured at `size`, on nodes of 8 cpus; `has_groups` needs a Kubernetes that serves PodGroups."""

    about: str
    size: int
    task: Callable[[Side, int, int], Task]
    """For a side, a size and a number of nodes."""
    has_groups: bool = True


def _plain(side: Side, size: int, _nodes: int) -> Task:
    return Task([*pods(side, "pod", size, SMALL)], size)


def _gangs(side: Side, size: int, _nodes: int) -> Task:
    return Task([item for number in range(size) for item in gang(side, f"gang-{number}", 3, SMALL)], 3 * size)


def _large(side: Side, size: int, _nodes: int) -> Task:
    return Task([item for number in range(3) for item in gang(side, f"gang-{number}", size, SMALL)], 3 * size)


def _topology(side: Side, size: int, nodes: int) -> Task:
    """Each gang fills a zone: a node takes eleven of its pods."""
    members = 11 * nodes // ZONES
    constraints = {"topology": [{"key": ZONE}]}
    gangs = [gang(side, f"gang-{number}", members, "720m", schedulingConstraints=constraints) for number in range(size)]
    return Task([item for each in gangs for item in each], members * size)


def _preempt(side: Side, size: int, nodes: int) -> Task:
    """Gangs that together need all nodes, which are full of pods of less priority."""
    takers = [gang(side, f"taker-{number}", nodes // size, WHOLE, priority=IMPORTANT) for number in range(size)]
    return Task([item for each in takers for item in each], nodes // size * size, "bound", *_victims(side, nodes))


def _preempt_singly(side: Side, _size: int, nodes: int) -> Task:
    takers = [*pods(side, "taker", nodes, WHOLE, priorityClassName=IMPORTANT)]
    return Task(takers, nodes, "bound", *_victims(side, nodes))


def _victims(side: Side, nodes: int) -> tuple[list[Item], int]:
    return [*pods(side, "victim", 10 * nodes, TENTH)], 10 * nodes


LOADS = {
    "plain": Load("N pods one by one", 1000, _plain, has_groups=False),
    "gangs": Load("N gangs of 3 pods", 1000, _gangs),
    "large": Load("3 gangs of N pods", 1000, _large),
    "topology": Load(f"N gangs, each of which fills one of {ZONES} zones", ZONES, _topology),
    "preempt": Load("N gangs, with a pod for each node in all, evict ten pods on each", 1, _preempt),
    "preempt-singly": Load("a pod for each node, one by one, evicts ten pods on it", 1, _preempt_singly, has_groups=False),
}
