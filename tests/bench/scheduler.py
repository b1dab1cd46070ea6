"""`python -m tests.bench.scheduler`: how long decisions take, without an API server.

A line per figure: what, the median of the repetitions in milliseconds of CPU of one core, so that a busy machine does not count,
the aim, and at three sizes how it grows.
"""

from __future__ import annotations

import argparse
import gc
import math
import statistics
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import msgspec

from pyroclast.api import records
from pyroclast_scheduler import registry
from pyroclast_scheduler.cache.cache import Cache
from pyroclast_scheduler.cycle import run_cycle
from pyroclast_scheduler.session.configuration import parse
from pyroclast_scheduler.session.outcome import Commit
from pyroclast_scheduler.session.ports import Ports
from pyroclast_scheduler.session.session import Session

CHART = """
actions: "enqueue, allocate, backfill"
tiers:
- plugins: [{name: priority}, {name: gang, enablePreemptable: false}, {name: conformance}]
- plugins: [{name: overcommit}, {name: drf, enablePreemptable: false}, {name: predicates}, {name: proportion}, {name: nodeorder},
    {name: binpack}]
"""


@dataclass(frozen=True)
class Figure:
    """One thing measured. `aim`: milliseconds it should stay under, 0 where none is set."""

    name: str
    milliseconds: float
    aim: float = 0.0

    def __str__(self) -> str:
        verdict = "" if not self.aim else f"  aim {self.aim:g} ms: {'met' if self.milliseconds <= self.aim else 'MISSED'}"
        return f"{self.name:<72} {self.milliseconds:9.2f} ms{verdict}"


ACTIONS, PLUGINS = registry.actions(), registry.plugins()
CONFIGURATION = parse(CHART, actions=ACTIONS, plugins=PLUGINS)


def node(i: int, *, cpu: int = 32) -> records.Node:
    body = {
        "metadata": {
            "name": f"node-{i}",
            "uid": f"n{i}",
            "labels": {"kubernetes.io/hostname": f"node-{i}", "zone": f"z{i % 10}"},
        },
        "status": {"allocatable": {"cpu": str(cpu), "memory": f"{cpu * 8}Gi", "pods": "110"}},
    }
    return msgspec.convert(body, records.Node)


def queue(name: str) -> records.Queue:
    return msgspec.convert({"metadata": {"name": name, "uid": name}, "spec": {"weight": 1}}, records.Queue)


def group(name: str, size: int, *, queue_name: str = "default") -> records.PodGroup:
    body = {
        "metadata": {"namespace": "b", "name": name, "uid": name, "creationTimestamp": "2026-01-01T00:00:00Z"},
        "spec": {"minMember": size, "queue": queue_name, "minResources": {"cpu": str(size)}},
        "status": {"phase": "Inqueue"},
    }
    return msgspec.convert(body, records.PodGroup)


def pod(group_name: str, i: int, *, millis: int = 1000, spec: dict[str, object] | None = None) -> records.Pod:
    body = {
        "metadata": {
            "namespace": "b",
            "name": f"{group_name}-w-{i}",
            "uid": f"{group_name}-w-{i}",
            "labels": {"app": "b"},
            "annotations": {"scheduling.k8s.io/group-name": group_name, "volcano.sh/task-spec": "w"},
            "creationTimestamp": "2026-01-01T00:00:00Z",
        },
        "spec": {
            "schedulerName": "volcano",
            "containers": [{"name": "c", "resources": {"requests": {"cpu": f"{millis}m", "memory": "1Gi"}}}],
            **(spec or {}),
        },
        "status": {"phase": "Pending"},
    }
    return msgspec.convert(body, records.Pod)


def running(given: records.Pod, node_name: str, start: str) -> records.Pod:
    """The pod as it runs on that node since `start`, a timestamp."""
    body = msgspec.to_builtins(given)
    body["spec"]["nodeName"] = node_name
    body["status"] = {"phase": "Running", "startTime": start}
    return msgspec.convert(body, records.Pod)


def cluster(nodes: int, *, queues: int = 1) -> Cache:
    """Nodes of which some are partly used, so that scores differ."""
    cache = Cache()
    for name in ["default", *(f"q{i}" for i in range(1, queues))]:
        cache.queue_changed(None, queue(name))
    for i in range(nodes):
        cache.node_changed(None, node(i))
    for i in range(0, nodes, 3):
        running = pod("other", i, millis=1000 * (i % 20 + 1))
        body = msgspec.to_builtins(running)
        body["spec"]["nodeName"] = f"node-{i}"
        body["status"]["phase"] = "Running"
        cache.pod_changed(None, msgspec.convert(body, records.Pod))
    return cache


def add_jobs(
    cache: Cache, jobs: int, size: int, *, shapes: int = 1, queues: int = 1, spec: dict[str, object] | None = None
) -> None:
    for j in range(jobs):
        name = f"job{j}"
        cache.group_changed(None, group(name, size, queue_name="default" if j % queues == 0 else f"q{j % queues}"))
        for i in range(size):
            cache.pod_changed(None, pod(name, i, millis=100 + 10 * (j % shapes), spec=spec))


def cycle(cache: Cache) -> tuple[float, int]:
    """Milliseconds of one cycle, snapshot and all, and how many pods it placed."""
    commits: list[Commit] = []
    start = time.process_time()
    run_cycle(
        cache.snapshot(),
        CONFIGURATION,
        actions=ACTIONS,
        plugins=PLUGINS,
        ports=Ports(time.time(), commits.append),
        uid="bench",
    )
    length = (time.process_time() - start) * 1000
    return length, sum(len(binds.placed) for commit in commits for binds in commit.binds)


def median(repeat: int, run: Callable[[], float]) -> float:
    gc.collect()
    return statistics.median(run() for _ in range(repeat))


def gang(cache: Cache, size: int, repeat: int) -> float:
    """Milliseconds to place one gang in an open session, statement and commit included."""
    allocate = ACTIONS["allocate"]

    def run() -> float:
        session = Session(cache.snapshot(), CONFIGURATION, PLUGINS, Ports(time.time()), uid="bench")
        session.plan(cache.tasks["job0-w-0"].shape).first(session.moves.log)
        start = time.process_time()
        allocate(session, session.arguments_of("allocate"))
        length = (time.process_time() - start) * 1000
        placed = size - len(session.jobs["b/job0"].fit_errors)
        assert placed == size, session.jobs["b/job0"].fit_error(session.names)
        return length

    return median(repeat, run)


def whole(cache: Cache, want: int, repeat: int) -> float:
    """Milliseconds of a whole cycle that places `want` pods."""

    def run() -> float:
        length, placed = cycle(cache)
        assert placed == want, f"{placed} of {want} placed"
        return length

    return median(repeat, run)


def figures(repeat: int) -> Iterator[Figure]:
    """What is measured."""
    for nodes in (1250, 2500, 5000):
        cache = cluster(nodes)
        add_jobs(cache, 1, 1000)
        yield Figure(f"gang of 1,000 on {nodes:,} nodes, allocate", gang(cache, 1000, repeat), 5 if nodes == 5000 else 0)
    cache = cluster(5000)
    yield Figure("idle cycle, 5,000 nodes", median(repeat, lambda: cycle(cache)[0]))
    for pods in (2500, 5000, 10000):
        cache = cluster(5000)
        add_jobs(cache, pods // 20, 20, shapes=50)
        yield Figure(
            f"whole cycle, {pods:,} pods of 50 shapes, 5,000 nodes", whole(cache, pods, repeat), 200 if pods == 10000 else 0
        )
    for queues in (1, 10, 100):
        cache = cluster(5000, queues=queues)
        add_jobs(cache, 500, 20, shapes=50, queues=queues)
        yield Figure(f"whole cycle, 10,000 pods in {queues} queues, 5,000 nodes", whole(cache, 10000, repeat))
    cache = cluster(5000)
    add_jobs(cache, 10000, 1)
    yield Figure("whole cycle, 10,000 jobs of 1 pod, 5,000 nodes", whole(cache, 10000, max(1, repeat // 3)))
    spread = {
        "topologySpreadConstraints": [
            {
                "topologyKey": "zone",
                "maxSkew": 1,
                "whenUnsatisfiable": "DoNotSchedule",
                "labelSelector": {"matchLabels": {"app": "b"}},
            }
        ]
    }
    cache = cluster(5000)
    add_jobs(cache, 1, 1000, spec=spread)
    yield Figure("gang of 1,000 with topology spread, 5,000 nodes, whole cycle", whole(cache, 1000, max(1, repeat // 3)), 100)
    anti = {"labelSelector": {"matchLabels": {"app": "b"}}, "topologyKey": "kubernetes.io/hostname"}
    cache = cluster(5000)
    affinity = {"affinity": {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [anti]}}}
    add_jobs(cache, 1, 1000, spec=affinity)
    yield Figure("gang of 1,000 with anti-affinity, 5,000 nodes, whole cycle", whole(cache, 1000, max(1, repeat // 3)), 100)


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.bench.scheduler", description=__doc__)
    parser.add_argument("--repeat", type=int, default=5, help="repetitions of which the median counts")
    options = parser.parse_args(arguments)
    found: list[Figure] = []
    for figure in figures(options.repeat):
        print(figure, flush=True)
        found.append(figure)
    for what, at in (("nodes", (0, 2)), ("pods", (4, 6)), ("queues", (7, 9))):
        first, last = (found[i].milliseconds for i in at)
        ratio = {"nodes": 4, "pods": 4, "queues": 100}[what]
        print(f"grows with {what} as n^{math.log(last / first) / math.log(ratio):.2f}")
    return 1 if any(figure.aim and figure.milliseconds > figure.aim for figure in found) else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
