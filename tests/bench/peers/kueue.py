"""Loads of Jobs: with Kueue and kube-scheduler as Jobs of `batch`, and with Pyroclast as Jobs of its own."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from pyroclast.api.types import PRIORITY_CLASSES, QUEUES, ResourceType
from tests.bench.peers.arena import THEIRS, Item, Side, Task
from tests.bench.peers.objects import job

FLAVORS = ResourceType("kueue.x-k8s.io", "v1beta2", "resourceflavors", "ResourceFlavor", namespaced=False)
CLUSTER_QUEUES = ResourceType("kueue.x-k8s.io", "v1beta2", "clusterqueues", "ClusterQueue", namespaced=False)
LOCAL_QUEUES = ResourceType("kueue.x-k8s.io", "v1beta2", "localqueues", "LocalQueue")

OPEN, TIGHT = "open", ("tight-0", "tight-1")
TREE = [(f"cohort-{cohort}", f"cohort-{cohort}-{number}") for cohort in range(5) for number in range(6)]


@dataclass(frozen=True, slots=True)
class Class:
    """Jobs of one pod in each queue of Kueue's own baseline: how many, how often, for how long, how important, how large."""

    count: int
    every: float
    seconds: float
    priority: int
    cpu: str


CLASSES = {
    "small": Class(350, 0.1, 0.2, 50, "1"),
    "medium": Class(100, 0.5, 0.5, 100, "5"),
    "large": Class(50, 1.2, 1.0, 200, "20"),
}


@dataclass(frozen=True, slots=True)
class Load:
    about: str
    task: Callable[[Side, int], Task]
    """For a side and a divisor of the number of Jobs."""


def shared() -> list[Item]:
    """The queues of both sides, made once; LocalQueues are in the namespace of each run."""
    found = [Item(FLAVORS, {"metadata": {"name": "default"}})]
    found += [Item(PRIORITY_CLASSES, {"metadata": {"name": name}, "value": each.priority}) for name, each in CLASSES.items()]
    found += [*_queue(OPEN, "100000"), *(each for name in TIGHT for each in _queue(name, "40"))]
    for cohort in dict.fromkeys(cohort for cohort, _ in TREE):
        found.append(Item(QUEUES, {"metadata": {"name": cohort}, "spec": {"deserved": {"cpu": "120"}}}))
    for cohort, name in TREE:
        found += _queue(name, "20", cohort, most="120")
    return found


def _queue(name: str, cpu: str, parent: str = "", most: str = "") -> list[Item]:
    """A queue of ours, and one of Kueue that may borrow from its cohort and take back what is its own."""
    ours: dict[str, Any] = {"deserved": {"cpu": cpu}, "capability": {"cpu": most or cpu}, "reclaimable": True}
    quota: dict[str, Any] = {"name": "cpu", "nominalQuota": cpu}
    theirs: dict[str, Any] = {"namespaceSelector": {}}
    if parent:
        ours["parent"] = theirs["cohortName"] = parent
        quota["borrowingLimit"] = "100"
        theirs["preemption"] = {"reclaimWithinCohort": "Any", "withinClusterQueue": "LowerPriority"}
    theirs["resourceGroups"] = [{"coveredResources": ["cpu"], "flavors": [{"name": "default", "resources": [quota]}]}]
    meta = {"metadata": {"name": name}}
    later = 3.0 if parent else 0.0  # admission must know the parent
    return [Item(QUEUES, {**meta, "spec": ours}, later), Item(CLUSTER_QUEUES, {**meta, "spec": theirs})]


def local_queues() -> list[Item]:
    """Those of one namespace."""
    names = [OPEN, *TIGHT, *(name for _, name in TREE)]
    return [Item(LOCAL_QUEUES, {"metadata": {"name": name}, "spec": {"clusterQueue": name}}) for name in names]


def _open(jobs: int, size: int) -> Callable[[Side, int], Task]:
    def task(side: Side, scale: int) -> Task:
        count = max(1, jobs // scale)
        made = [job(side, f"job-{number}", size, {"cpu": "100m"}, OPEN) for number in range(count)]
        return Task(made, count * size, before=_needed(side))

    return task


def _contended(side: Side, scale: int) -> Task:
    count = max(1, 20 // scale)
    made = [job(side, f"{queue}-{n}", 10, {"cpu": "1"}, queue, seconds=2) for n in range(count) for queue in TIGHT]
    return Task(made, 10 * len(made), "ended", before=_needed(side))


def _baseline(side: Side, scale: int) -> Task:
    made = [
        job(
            side,
            f"{name}-{queue}-{number}",
            1,
            {"cpu": each.cpu},
            queue,
            seconds=each.seconds,
            priority=name,
            after=number * each.every,
            group=name,
        )
        for name, each in CLASSES.items()
        for _, queue in TREE
        for number in range(max(1, each.count // scale))
    ]
    return Task(made, len(made), "ended", before=_needed(side))


def _needed(side: Side) -> list[Item]:
    return local_queues() if side == THEIRS else []


LOADS = {
    "10x100": Load("10 Jobs of 100 pods", _open(10, 100)),
    "100x10": Load("100 Jobs of 10 pods", _open(100, 10)),
    "200x1": Load("200 Jobs of one pod", _open(200, 1)),
    "contended": Load("20 Jobs of 10 pods, 2 s each, in each of two queues with room for 4", _contended),
    "baseline": Load("Kueue's own baseline: 500 Jobs in each of 30 queues of 5 cohorts", _baseline),
}
