"""What a watcher of a Job sees while its lifecycle goes on: the real controller in virtual time, one line of the table each."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import pytest

from pyroclast.api.types import COMMANDS, JOBS, PODS, Key
from pyroclast.kube.http.client import PatchKind
from tests.unit.ending import ended

from .cluster import NS, task
from .memory_cluster import MemoryCluster, in_virtual_time, key_of

STEP = 0.05
GRACE = 0.5
QUIET = 3.0
"""Seconds after which nothing more is to be expected: longer than any pace and settling."""

RESTARTED = ["Pending", "Running", "Restarting*", "Pending", "Running"]


class Watched:
    """A cluster whose nodes run and release pods, and whose watcher notes the phases of the Job `j`; a star: with pods going."""

    def __init__(self, cluster: MemoryCluster) -> None:
        self.cluster, self.trace = cluster, [""]
        self.held: set[str] = set()
        cluster.server.on_write = self._seen

    def _seen(self, _: str, kind: str, item: dict[str, Any]) -> None:
        if kind != JOBS.qualified:
            return
        status = item.get("status") or {}
        phase = status.get("state", {}).get("phase", "")
        if self.trace[-1].rstrip("*") != phase:
            self.trace.append(phase)
        if status.get("terminating") and phase.endswith("ing") and phase not in ("Pending", "Running"):
            self.trace[-1] = f"{phase}*"

    async def nodes(self) -> None:
        """Let gangs in, run pods, and let those go that are deleted."""
        since: dict[str, float] = {}
        while True:
            now = asyncio.get_running_loop().time()
            self.cluster.admit()
            self.cluster.bind()
            for pod in self.cluster.pods():
                uid, meta = pod["metadata"]["uid"], pod["metadata"]
                if "deletionTimestamp" in meta:
                    if now - since.setdefault(uid, now) >= GRACE:
                        self.cluster.server.delete(PODS, key_of(pod), grace=0)
                elif pod["status"]["phase"] == "Pending" and meta["name"] not in self.held:
                    self.cluster.set_phase(pod, "Running")
            await asyncio.sleep(STEP)

    async def reaches(self, phase: str) -> None:
        await self.cluster.until(lambda: self.cluster.phase("j") == phase)
        await asyncio.sleep(QUIET)

    def pod(self, name: str) -> dict[str, Any]:
        return self.cluster.server.of(PODS)[Key(NS, f"j-{name}")]

    def order(self, action: str) -> None:
        uid = self.cluster.server.of(JOBS)[Key(NS, "j")]["metadata"]["uid"]
        target = {"apiVersion": JOBS.api_version, "kind": "Job", "name": "j", "uid": uid, "controller": True}
        meta = {"generateName": "order-", "namespace": NS}
        body = {"apiVersion": COMMANDS.api_version, "kind": "Command", "metadata": meta, "action": action, "target": target}
        self.cluster.server.create(COMMANDS, body)


Deed = Callable[[Watched], object]


def fails(name: str, code: int = 1) -> Deed:
    return lambda watched: watched.cluster.set_phase(watched.pod(name), "Failed", code)


def succeeds(*names: str) -> Deed:
    def deed(watched: Watched) -> None:
        for name in names:
            watched.cluster.set_phase(watched.pod(name), "Succeeded")

    return deed


def is_evicted(name: str) -> Deed:
    return lambda watched: watched.cluster.server.delete(PODS, key_of(watched.pod(name)))


def starts(name: str) -> Deed:
    return lambda watched: watched.held.discard(f"j-{name}")


def time_passes(_: Watched) -> None:
    """Nothing else happens."""


def is_scaled(a: int, b: int, gang: int) -> Deed:
    def deed(watched: Watched) -> None:
        tasks = [{**task("a", a), "minAvailable": a}, {**task("b", b), "minAvailable": b}]
        watched.cluster.server.patch(JOBS, Key(NS, "j"), {"spec": {"minAvailable": gang, "tasks": tasks}}, PatchKind.MERGE)

    return deed


def is_ordered(action: str) -> Deed:
    return lambda watched: watched.order(action)


def restarts(name: str, times: int) -> Deed:
    """A container of a pod is restarted so often."""

    def deed(watched: Watched) -> None:
        container = {"name": "c", "ready": True, "restartCount": times, "state": {"running": {}}}
        status = {"status": {"phase": "Running", "containerStatuses": [container]}}
        watched.cluster.server.patch(PODS, key_of(watched.pod(name)), status, PatchKind.MERGE, "status")

    return deed


def on(event: str, action: str, **more: Any) -> dict[str, Any]:
    return {"policies": [{"event": event, "action": action, **more}]}


@dataclass(frozen=True)
class Case:
    """Tasks a (2 pods) and b (1 pod) run; what happens then, one after the other; what is seen and what is there at the end."""

    happens: Sequence[Deed]
    trace: Sequence[str]
    spec: dict[str, Any] = field(default_factory=dict)
    a: dict[str, Any] = field(default_factory=dict)
    retries: int = 0
    version: int = 0
    counts: dict[str, int] = field(default_factory=dict)
    held: Sequence[str] = ()
    """Pods that no node starts at first."""
    made: dict[str, int] = field(default_factory=dict)
    """How often which pods were made, where not once."""


ALL_TWICE = {"j-a-0": 2, "j-a-1": 2, "j-b-0": 2}
CASES = {
    "all pods succeed": Case(
        [succeeds("a-0", "a-1", "b-0")], ["Pending", "Running", "Completed"], counts={"succeeded": 3}, version=1
    ),
    "too few succeed": Case(
        [succeeds("a-0", "b-0"), fails("a-1")],
        ["Pending", "Running", "Failed"],
        counts={"succeeded": 2, "failed": 1},
        version=1,
    ),
    "a failed pod without a policy stays failed": Case(
        [fails("a-0")], ["Pending", "Running"], counts={"failed": 1, "running": 2}
    ),
    "an evicted pod without a policy is made again": Case(
        [is_evicted("a-0")], ["Pending", "Running", "Pending", "Running"], counts={"running": 3}, made={"j-a-0": 2}
    ),
    "and is not missed where fewer are needed": Case(
        [is_evicted("a-0")], ["Pending", "Running"], spec={"minAvailable": 2}, counts={"running": 3}, made={"j-a-0": 2}
    ),
    "minSuccess ends the Job before all have": Case(
        [succeeds("a-0")], ["Pending", "Running", "Completed"], spec={"minSuccess": 1}, counts={"succeeded": 1}, version=1
    ),
    "PodFailed: RestartJob": Case(
        [fails("a-0")], RESTARTED, spec=on("PodFailed", "RestartJob"), retries=1, version=1, counts={"running": 3}, made=ALL_TWICE
    ),
    "PodFailed: RestartTask": Case(
        [fails("a-0")],
        RESTARTED,
        spec=on("PodFailed", "RestartTask"),
        retries=1,
        counts={"running": 3},
        made={"j-a-0": 2, "j-a-1": 2},
    ),
    "PodFailed: RestartPod": Case(
        [fails("a-0")], RESTARTED, spec=on("PodFailed", "RestartPod"), retries=1, counts={"running": 3}, made={"j-a-0": 2}
    ),
    "PodFailed: AbortJob": Case(
        [fails("a-0")],
        ["Pending", "Running", "Aborting*", "Aborted"],
        spec=on("PodFailed", "AbortJob"),
        version=1,
        counts={"failed": 1},
    ),
    "PodFailed: TerminateJob": Case(
        [fails("a-0")],
        ["Pending", "Running", "Terminating*", "Terminated"],
        spec=on("PodFailed", "TerminateJob"),
        version=1,
        counts={"failed": 1},
    ),
    "PodFailed: CompleteJob": Case(
        [fails("a-0")],
        ["Pending", "Running", "Completing*", "Completed"],
        spec=on("PodFailed", "CompleteJob"),
        version=1,
        counts={"failed": 1},
    ),
    "PodEvicted: RestartJob": Case(
        [is_evicted("b-0")],
        RESTARTED,
        spec=on("PodEvicted", "RestartJob"),
        retries=1,
        version=1,
        counts={"running": 3},
        made=ALL_TWICE,
    ),
    "PodEvicted: TerminateJob": Case(
        [is_evicted("b-0")],
        ["Pending", "Running", "Terminating*", "Terminated"],
        spec=on("PodEvicted", "TerminateJob"),
        version=1,
    ),
    "PodEvicted: RestartPod, of which nothing is left": Case(
        [is_evicted("b-0")],
        ["Pending", "Running", "Restarting", "Pending", "Running"],
        spec=on("PodEvicted", "RestartPod"),
        retries=1,
        counts={"running": 3},
        made={"j-b-0": 2},
    ),
    "PodFailed: RestartPartition": Case(
        [fails("a-1")],
        RESTARTED,
        spec=on("PodFailed", "RestartPartition"),
        a={"partitionPolicy": {"totalPartitions": 2, "partitionSize": 1}},
        retries=1,
        counts={"running": 3},
        made={"j-a-1": 2},
    ),
    "PodFailed: RestartPartition of a task without partitions": Case(
        [fails("a-1")], ["Pending", "Running"], spec=on("PodFailed", "RestartPartition"), counts={"running": 2, "failed": 1}
    ),
    "which holds up no other policy": Case(
        [fails("a-1"), fails("b-0", 7)],
        ["Pending", "Running", "Aborting*", "Aborted"],
        spec={"policies": [{"exitCode": 7, "action": "AbortJob"}, *on("PodFailed", "RestartPartition")["policies"]]},
        version=1,
        counts={"failed": 2},
    ),
    "a policy that means nothing while the Job runs means nothing while it restarts either": Case(
        [succeeds("b-0"), is_ordered("RestartTask")],
        ["Pending", "Running", "Restarting", "Pending", "Running"],
        spec=on("TaskCompleted", "ResumeJob"),
        retries=1,
        counts={"running": 2, "succeeded": 1},
    ),
    "PodFailed with a timeout: only then": Case(
        [fails("a-0")],
        ["Pending", "Running"],
        spec=on("PodFailed", "AbortJob", timeout="10s"),
        counts={"running": 2, "failed": 1},
    ),
    "PodFailed when its timeout is over": Case(
        [fails("a-0"), *[time_passes] * 4],
        ["Pending", "Running", "Aborting*", "Aborted"],
        spec=on("PodFailed", "AbortJob", timeout="10s"),
        version=1,
        counts={"failed": 1},
    ),
    "PodPending for longer than its timeout": Case(
        [time_passes] * 4,
        ["Pending", "Running", "Terminating*", "Terminated"],
        spec={**on("PodPending", "TerminateJob", timeout="10s"), "minAvailable": 2},
        version=1,
        held=["a-0"],
    ),
    "PodPending that starts in time": Case(
        [starts("a-0"), *[time_passes] * 4],
        ["Pending", "Running"],
        spec={**on("PodPending", "TerminateJob", timeout="10s"), "minAvailable": 2},
        counts={"running": 3},
        held=["a-0"],
    ),
    "PodPending without a timeout matches nothing": Case(
        [time_passes] * 2,
        ["Pending", "Running"],
        spec={**on("PodPending", "TerminateJob"), "minAvailable": 2},
        counts={"running": 2, "pending": 1},
        held=["a-0"],
    ),
    "scaled to zero it keeps Running, and nobody was evicted": Case(
        [is_scaled(0, 0, 0), time_passes], ["Pending", "Running"], spec=on("PodEvicted", "TerminateJob")
    ),
    "a failed pod that scaling down leaves no place for ends no Job": Case(
        [fails("a-0"), fails("a-1"), is_scaled(1, 1, 2)],
        ["Pending", "Running", "Pending"],
        spec={"minAvailable": 2},
        counts={"failed": 1, "pending": 1},
        held=["b-0"],
    ),
    "nor does one that has succeeded": Case(
        [succeeds("a-0"), succeeds("a-1"), is_scaled(1, 1, 2)],
        ["Pending", "Running"],
        spec={"minAvailable": 3},
        counts={"succeeded": 1, "running": 1},
    ),
    "TaskCompleted of one task: CompleteJob": Case(
        [succeeds("a-0"), succeeds("a-1")],
        ["Pending", "Running", "Completing*", "Completed"],
        a=on("TaskCompleted", "CompleteJob"),
        version=1,
        counts={"succeeded": 2},
    ),
    "TaskCompleted of another task: nothing": Case(
        [succeeds("b-0")], ["Pending", "Running"], a=on("TaskCompleted", "CompleteJob"), counts={"running": 2, "succeeded": 1}
    ),
    "TaskFailed after too many restarts: TerminateJob": Case(
        [restarts("a-0", 1), restarts("a-0", 2)],
        ["Pending", "Running", "Terminating*", "Terminated"],
        spec=on("TaskFailed", "TerminateJob"),
        a={"maxRetry": 2},
        version=1,
    ),
    "fewer restarts: nothing": Case(
        [restarts("a-0", 1)],
        ["Pending", "Running"],
        spec=on("TaskFailed", "TerminateJob"),
        a={"maxRetry": 2},
        counts={"running": 3},
    ),
    "any event: AbortJob": Case(
        [is_evicted("a-0")], ["Pending", "Running", "Aborting*", "Aborted"], spec=on("*", "AbortJob"), version=1
    ),
    "an exit code: RestartJob": Case(
        [fails("a-0", 42)],
        RESTARTED,
        spec={"policies": [{"exitCode": 42, "action": "RestartJob"}]},
        retries=1,
        version=1,
        counts={"running": 3},
        made=ALL_TWICE,
    ),
    "another exit code: nothing": Case(
        [fails("a-0", 41)],
        ["Pending", "Running"],
        spec={"policies": [{"exitCode": 42, "action": "RestartJob"}]},
        counts={"running": 2, "failed": 1},
    ),
    "the policy of the task goes first": Case(
        [fails("a-0")],
        ["Pending", "Running", "Completing*", "Completed"],
        spec=on("PodFailed", "AbortJob"),
        a=on("PodFailed", "CompleteJob"),
        version=1,
        counts={"failed": 1},
    ),
    "that of the Job where the task's does not match": Case(
        [fails("a-0")],
        ["Pending", "Running", "Aborting*", "Aborted"],
        spec=on("PodFailed", "AbortJob"),
        a=on("PodEvicted", "CompleteJob"),
        version=1,
        counts={"failed": 1},
    ),
    "the last retry keeps the failed pod": Case(
        [fails("a-0"), fails("a-0")],
        [*RESTARTED, "Restarting*", "Failed"],
        spec={**on("PodFailed", "RestartJob"), "maxRetry": 2},
        retries=2,
        version=3,
        counts={"failed": 1},
        made=ALL_TWICE,
    ),
    "but not one that was to be restarted alone": Case(
        [fails("a-0")],
        ["Pending", "Running", "Restarting*", "Failed"],
        spec={**on("PodFailed", "RestartPod"), "maxRetry": 1},
        retries=1,
        version=1,
    ),
    "nor those of a task that was": Case(
        [succeeds("a-1"), fails("a-0"), fails("a-0")],
        [*RESTARTED, "Restarting*", "Failed"],
        spec={**on("PodFailed", "RestartTask"), "maxRetry": 2},
        retries=2,
        version=1,
        made={"j-a-0": 2, "j-a-1": 2},
    ),
    "AbortJob and ResumeJob by command": Case(
        [is_ordered("AbortJob"), is_ordered("ResumeJob")],
        ["Pending", "Running", "Aborting*", "Aborted", "Restarting", "Pending", "Running"],
        retries=1,
        version=2,
        counts={"running": 3},
        made=ALL_TWICE,
    ),
    "CompleteJob by command": Case([is_ordered("CompleteJob")], ["Pending", "Running", "Completing*", "Completed"], version=1),
    "TerminateJob by command": Case(
        [is_ordered("TerminateJob")], ["Pending", "Running", "Terminating*", "Terminated"], version=1
    ),
    "RestartJob by command": Case(
        [is_ordered("RestartJob")], RESTARTED, retries=1, version=1, counts={"running": 3}, made=ALL_TWICE
    ),
}


async def _live(cluster: MemoryCluster, case: Case) -> None:
    watched = Watched(cluster)
    watched.held |= {f"j-{name}" for name in case.held}
    made: dict[str, int] = {}
    uids: set[str] = set()
    seen = cluster.server.on_write

    def count(type_: str, kind: str, item: dict[str, Any]) -> None:
        seen(type_, kind, item)
        if kind == PODS.qualified and type_ == "ADDED" and item["metadata"]["uid"] not in uids:
            uids.add(item["metadata"]["uid"])
            made[item["metadata"]["name"]] = made.get(item["metadata"]["name"], 0) + 1

    cluster.server.on_write = count
    running = asyncio.get_running_loop().create_task(watched.nodes())
    try:
        cluster.job("j", task("a", 2, **case.a), task("b"), **{"maxRetry": 3, **case.spec})
        await watched.reaches("Running")
        for deed in case.happens:
            deed(watched)
            await asyncio.sleep(QUIET)
        assert not running.done()
    finally:
        await ended(running)
    status = cluster.status("j")
    counted = {name: status[name] for name in ("pending", "running", "succeeded", "failed", "terminating") if status.get(name)}
    assert watched.trace[1:] == list(case.trace)
    assert (status.get("retryCount", 0), status.get("version", 0)) == (case.retries, case.version)
    assert counted == case.counts
    assert made == {"j-a-0": 1, "j-a-1": 1, "j-b-0": 1} | case.made


@pytest.mark.parametrize("case", CASES.values(), ids=CASES.keys())
def test_what_is_seen_of_a_job(case: Case) -> None:
    in_virtual_time(lambda cluster: _live(cluster, case))
