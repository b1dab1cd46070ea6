"""What the benches of the scheduler are made of: its default configuration, nodes, queues, groups and pods."""

from __future__ import annotations

import math
from collections.abc import Iterable
from datetime import UTC, datetime
from typing import Any, Final

import msgspec

from pyroclast.api import keys, records
from pyroclast_scheduler import registry
from pyroclast_scheduler.cache.cache import Cache
from pyroclast_scheduler.cycle import run_cycle
from pyroclast_scheduler.session.configuration import Configuration, parse
from pyroclast_scheduler.session.outcome import Commit, Outcome
from pyroclast_scheduler.session.ports import Ports
from tests.scenarios.taking import take

CHART = """
actions: "enqueue, allocate, backfill"
tiers:
- plugins: [{name: priority}, {name: gang, enablePreemptable: false}, {name: conformance}]
- plugins: [{name: overcommit}, {name: drf, enablePreemptable: false}, {name: predicates}, {name: proportion}, {name: nodeorder},
    {name: binpack}]
"""


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


EPOCH: Final = 1_800_000_000.0


def timestamp(at: float) -> str:
    """So many seconds after EPOCH."""
    return datetime.fromtimestamp(EPOCH + at, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


class VirtualCluster:
    """Cache, sessions and actions of the scheduler in virtual time, without an API server; a pod runs as soon as it is placed."""

    def __init__(self, configuration: Configuration, queues: Iterable[str], cpus: Iterable[int]) -> None:
        self.cache, self._configuration = Cache(), configuration
        self._groups: dict[str, records.PodGroup] = {}
        self._unplaced: dict[str, int] = {}
        for name in queues:
            self.cache.queue_changed(None, queue(name))
        for i, cpu in enumerate(cpus):
            self.cache.node_changed(None, node(i, cpu=cpu))

    def submit(
        self, name: str, pods: int, cpu: int, *, queue_name: str, at: float, said: float | None = None, **least: str
    ) -> None:
        """A job comes. `said`: the seconds that it says it runs; `least`: what it asks for besides `cpu` for each pod."""
        body = msgspec.to_builtins(group(name, pods, queue_name=queue_name))
        body["metadata"]["creationTimestamp"] = timestamp(at)
        body["spec"]["minResources"] = {"cpu": str(pods * cpu), **least}
        if said is not None:
            body["metadata"]["annotations"] = {keys.RUNNING_ESTIMATE: f"{math.ceil(said)}s"}
        self._groups[name] = msgspec.convert(body, records.PodGroup)
        self.cache.group_changed(None, self._groups[name])
        for i in range(pods):
            self.cache.pod_changed(None, pod(name, i, millis=1000 * cpu))
        self._unplaced[name] = pods

    def session(self, at: float, **ports: Any) -> tuple[Outcome, list[str]]:
        """One session; what came of it, and the jobs of which the last pod was placed in it."""
        commits: list[Commit] = []
        outcome = run_cycle(
            self.cache.snapshot(),
            self._configuration,
            actions=ACTIONS,
            plugins=PLUGINS,
            ports=Ports(EPOCH + at, commits.append, **ports),
            uid="virtual",
        )
        take(self.cache, outcome)
        started = []
        for uid, node_name in (each for commit in commits for binds in commit.binds for each in binds.placed):
            task = self.cache.tasks[uid]
            self.cache.pod_changed(task.pod, running(task.pod, node_name, timestamp(at)))
            name = task.job.partition("/")[2]
            self._unplaced[name] -= 1
            if not self._unplaced[name]:
                started.append(name)
        return outcome, started

    def is_placed(self, name: str) -> bool:
        return self._unplaced.get(name) == 0

    def end(self, name: str) -> None:
        """The job and its pods are gone."""
        for task in list(self.cache.groups.tasks_of(f"b/{name}")):
            self.cache.pod_changed(task.pod, None)
        self.cache.group_changed(self._groups.pop(name), None)
