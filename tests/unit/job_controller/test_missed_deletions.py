"""A pod that was deleted while no controller ran is evicted as any other; one that the controller deletes itself never is,
whenever it is killed.
"""

from __future__ import annotations

import asyncio
import copy
from collections.abc import Callable
from typing import Any

import pytest

from pyroclast.api import keys
from pyroclast.api.types import JOBS, PODS, Key, ResourceType
from pyroclast.kube.basics.errors import Conflict, ConnectionFailed, KubeError
from pyroclast.kube.http.client import PatchKind
from pyroclast.lifecycle.effects import DeletePods, Victim
from pyroclast.runtime.in_process.creation import pods_checked
from pyroclast.runtime.reconciler import Pace
from pyroclast_job_controller.job.memory import JobMemory
from pyroclast_job_controller.job.pod_actions import PodActions

from .cluster import NS, task
from .memory_cluster import MemoryCluster, in_virtual_time, virtual_cluster

EVICTED = [{"event": "PodEvicted", "action": "AbortJob"}]


async def started(cluster: MemoryCluster, *tasks: dict[str, Any], waiting: int = 0, **spec: Any) -> None:
    """A Job whose pods run, but for the last ones."""
    cluster.job("j", *tasks, **spec)
    await asyncio.sleep(3)
    cluster.admit()
    await asyncio.sleep(3)
    cluster.bind()
    pods = cluster.pods()
    for pod in pods[: len(pods) - waiting]:
        cluster.set_phase(pod, "Running")
    await asyncio.sleep(3)


def scale(cluster: MemoryCluster, replicas: int) -> None:
    rows = copy.deepcopy(cluster.server.of(JOBS)[Key(NS, "j")]["spec"]["tasks"])
    rows[0] |= {"replicas": replicas, "minAvailable": replicas}
    spec = {"tasks": rows, "minAvailable": sum(row["minAvailable"] for row in rows)}
    cluster.server.patch(JOBS, Key(NS, "j"), {"spec": spec}, PatchKind.MERGE)


def delete(cluster: MemoryCluster, name: str, *, grace: int | None = 0) -> None:
    cluster.server.delete(PODS, Key(NS, f"j-{name}"), grace=grace)


async def comes_to_rest(cluster: MemoryCluster) -> None:
    for _ in range(8):
        await asyncio.sleep(3)
        cluster.admit()
        cluster.drain()
        cluster.run_pods()


def nothing(_: MemoryCluster) -> None:
    pass


@pytest.mark.parametrize(
    ("waiting", "before", "gone"),
    [
        pytest.param(0, nothing, "a-0", id="of a Job that runs"),
        pytest.param(2, nothing, "a-0", id="of a gang that is not whole"),
        pytest.param(0, lambda cluster: scale(cluster, 5), "a-1", id="of a Job whose scale has changed"),
        pytest.param(0, lambda cluster: delete(cluster, "a-2", grace=None), "a-2", id="that was asked to go before"),
    ],
)
@virtual_cluster()
async def test_pod_deleted_while_no_controller_runs_counts_as_evicted(
    cluster: MemoryCluster, waiting: int, before: Callable[[MemoryCluster], None], gone: str
) -> None:
    await started(cluster, task(replicas=4), waiting=waiting, policies=EVICTED)
    before(cluster)
    await asyncio.sleep(3)
    await cluster.replica.kill()
    delete(cluster, gone)
    await cluster.start_controller()
    await asyncio.sleep(5)
    state = cluster.status("j")["state"]
    assert (state["phase"][:5], state["message"].split(":")[0]) == ("Abort", f"pod j-{gone} of task a was deleted")


@pytest.mark.parametrize("policies", [[], [{"event": "PodEvicted", "action": "RestartJob"}]], ids=["no policy", "evictions"])
@pytest.mark.parametrize("down", ["", "as it is deleted", "soon after"])
@virtual_cluster()
async def test_pod_that_is_deleted_after_its_success_stays_succeeded(
    cluster: MemoryCluster, policies: list[dict[str, Any]], down: str
) -> None:
    await started(cluster, task(replicas=2), policies=policies)
    cluster.set_phase(cluster.pods()[0], "Succeeded")
    if down == "as it is deleted":
        await asyncio.sleep(3)
        await cluster.replica.kill()
    delete(cluster, "a-0")  # otherwise before the controller has looked
    if down == "soon after":
        await asyncio.sleep(3)
        await cluster.replica.kill()
    if down:
        await cluster.start_controller()
    await comes_to_rest(cluster)
    status = cluster.status("j")
    assert (status["state"]["phase"], status["succeeded"], status["running"], len(cluster.pods())) == ("Running", 1, 1, 1)
    cluster.set_phase(cluster.pods()[0], "Succeeded")
    await asyncio.sleep(3)
    delete(cluster, "a-1")
    await asyncio.sleep(3)
    status = cluster.status("j")
    assert (status["state"]["phase"], status["succeeded"], status.get("retryCount", 0)) == ("Completed", 2, 0)


@pytest.mark.parametrize("is_down", [False, True])
@virtual_cluster()
async def test_failed_pod_that_is_deleted_is_not_evicted_and_runs_again(cluster: MemoryCluster, *, is_down: bool) -> None:
    await started(cluster, task(replicas=2), policies=EVICTED)
    cluster.set_phase(cluster.pods()[0], "Failed", 1)
    await asyncio.sleep(3)
    if is_down:
        await cluster.replica.kill()
    delete(cluster, "a-0")
    if is_down:
        await cluster.start_controller()
    await comes_to_rest(cluster)
    assert (cluster.phase("j"), cluster.status("j")["running"]) == ("Running", 2)


@virtual_cluster()
async def test_policy_responds_to_a_failure_also_when_the_pod_is_deleted_before_the_controller_looks(
    cluster: MemoryCluster,
) -> None:
    await started(cluster, task(replicas=2), policies=[{"event": "PodFailed", "action": "AbortJob"}])
    cluster.set_phase(cluster.pods()[0], "Failed", 3)
    delete(cluster, "a-0")
    await asyncio.sleep(5)
    state = cluster.status("j")["state"]
    assert (state["phase"][:5], state["message"].split(":")[0]) == ("Abort", "pod j-a-0 of task a failed with exit code 3")


@virtual_cluster()
async def test_pod_that_lost_its_labels_while_no_controller_ran_is_deleted_with_the_aborted_job(cluster: MemoryCluster) -> None:
    await started(cluster, task(replicas=2), policies=[{"event": "PodFailed", "action": "AbortJob"}])
    cluster.replica.client.fault = cut_off_after(cluster, lambda: cluster.phase("j") == "Aborting")
    cluster.set_phase(cluster.pods()[0], "Failed", 1)
    await asyncio.sleep(3)
    await cluster.replica.kill()
    left = Key(NS, cluster.pods()[1]["metadata"]["name"])
    cluster.server.patch(PODS, left, {"metadata": {"labels": {keys.JOB_NAME: None}}}, PatchKind.MERGE)
    await cluster.start_controller()
    await comes_to_rest(cluster)
    assert (cluster.phase("j"), left in cluster.server.of(PODS)) == ("Aborted", False)


def cut_off_after(cluster: MemoryCluster, is_over: Callable[[], bool]) -> Callable[[bool], KubeError | None]:
    """A fault: none of the controller's writes reaches the server once `is_over`."""
    return lambda _: ConnectionFailed("reset") if is_over() else None


async def scales_down_and_up(cluster: MemoryCluster) -> None:
    await started(cluster, task(replicas=4), task("b", 1), policies=EVICTED)
    scale(cluster, 2)


async def scaled_up_again(cluster: MemoryCluster) -> None:
    scale(cluster, 4)


async def restarts_a_task(cluster: MemoryCluster) -> None:
    of_task = {"policies": [{"event": "PodFailed", "action": "RestartTask"}]}
    tasks = {**task(replicas=3), **of_task}, {**task("b", 2), **of_task}
    await started(cluster, *tasks, policies=EVICTED, maxRetry=9)
    cluster.set_phase(cluster.pods()[0], "Failed", 1)


async def restarts_another_task_meanwhile(cluster: MemoryCluster) -> None:
    await restarts_a_task(cluster)
    await asyncio.sleep(1)  # the pods of the first do not go yet
    last = next(pod for pod in cluster.pods() if pod["metadata"]["name"] == "j-b-1")
    cluster.set_phase(last, "Failed", 1)


async def nothing_more(_: MemoryCluster) -> None:
    pass


@pytest.mark.parametrize("is_watched", [False, True])
@pytest.mark.parametrize("writes", range(10))
@pytest.mark.parametrize(
    ("first", "then"),
    [
        (scales_down_and_up, scaled_up_again),
        (scales_down_and_up, nothing_more),
        (restarts_a_task, nothing_more),
        (restarts_another_task_meanwhile, nothing_more),
    ],
)
def test_pods_deleted_by_the_controller_never_count_as_evicted_whenever_it_is_killed(
    writes: int, first: Callable[[MemoryCluster], Any], then: Callable[[MemoryCluster], Any], *, is_watched: bool
) -> None:
    """It is killed after so many writes, and its pods go while nobody watches, or while the next one does."""

    async def scenario(cluster: MemoryCluster) -> None:
        await first(cluster)
        begun = cluster.server.writes.total()
        cluster.replica.client.fault = cut_off_after(cluster, lambda: cluster.server.writes.total() >= begun + writes)
        await asyncio.sleep(5)
        await cluster.replica.kill()
        if not is_watched:
            cluster.drain()
        await then(cluster)
        await cluster.start_controller()
        await comes_to_rest(cluster)
        assert (cluster.phase("j"), cluster.status("j")["running"]) == ("Running", len(cluster.pods()))

    in_virtual_time(scenario)


@virtual_cluster()
async def test_pod_is_restarted_although_patching_its_mark_hits_a_conflict(cluster: MemoryCluster) -> None:
    await cluster.running("j", task("a", replicas=2), policies=[{"event": "PodFailed", "action": "RestartTask"}])
    failed, healthy = cluster.pods()
    patch, conflicts = cluster.replica.client.patch, [0]

    async def contended(kind: ResourceType, key: Key, body: Any, how: PatchKind, **more: Any) -> Any:
        if key.name == healthy["metadata"]["name"] and not conflicts[0]:
            conflicts[0] += 1
            raise Conflict(409, "Conflict", "the object has been modified")
        return await patch(kind, key, body, how, **more)

    cluster.replica.client.patch = contended  # type: ignore[method-assign]
    cluster.set_phase(failed, "Failed", 1)

    def is_made_anew() -> bool:
        cluster.drain()
        pods = {pod["metadata"]["name"]: pod["metadata"]["uid"] for pod in cluster.pods()}
        return len(pods) == 2 and healthy["metadata"]["uid"] not in pods.values()

    await cluster.until(is_made_anew)
    cluster.run_pods()
    await cluster.until(lambda: cluster.phase("j") == "Running")
    assert (conflicts[0], cluster.phase("j")) == (1, "Running")


@virtual_cluster()
async def test_deletion_of_a_pod_that_no_longer_exists_is_not_remembered(cluster: MemoryCluster) -> None:
    await cluster.running("j", task("a", replicas=2))
    shared = cluster.replica.shared
    job = shared.caches.jobs.get(Key(NS, "j"))
    assert job is not None
    memory = JobMemory(job.metadata.uid, Pace(shared.clock))
    there = cluster.pods()[0]["metadata"]
    victims = (Victim("j-a-0", "gone-before"), Victim(there["name"], there["uid"]))
    creator = pods_checked(shared.client, (), (), ())
    actions = PodActions(shared.client, creator, shared.caches.pods, lambda _: None, lambda _: None)
    await actions.carry_out(job, DeletePods(victims), memory, forwarding=False)
    remembered, want = memory.deleted, {there["uid"]}
    assert remembered == want
