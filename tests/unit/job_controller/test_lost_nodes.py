"""Pods whose node is lost, PodGroups that become Unknown, and what counts as being stuck."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from pyroclast.api.types import COMMANDS, JOBS, NODES, POD_GROUPS, PODS, Key, ResourceType
from pyroclast.kube.http.client import PatchKind
from pyroclast.runtime.controllers import stuck

from .cluster import NS, task
from .memory_cluster import MemoryCluster, virtual_cluster
from .test_controller import command

GRACE = 1


@pytest.fixture
def cluster(cluster):
    cluster.lost.add("n1")
    return cluster


async def node(cluster, name, ready):
    body = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": name}}
    await cluster.client.create(NODES, body)
    status = {"conditions": [{"type": "Ready", "status": ready, "reason": "r", "message": "m"}]}
    await cluster.client.patch(NODES, Key("", name), {"status": status}, PatchKind.MERGE, subresource="status")


async def running_job(cluster, ready):
    if ready is not None:
        await node(cluster, "n1", ready)
    rows = task(replicas=2)
    rows["template"]["spec"] |= {"terminationGracePeriodSeconds": GRACE, "nodeName": "n1"}
    await cluster.running("j", rows)


@pytest.mark.parametrize("ready", [None, "Unknown", "False"])
async def test_pods_on_a_lost_node_are_replaced_after_give_up_lost_pods_after(cluster, ready):
    await cluster.kill()
    await cluster.start(give_up_lost_pods_after="1s")
    await running_job(cluster, ready)
    await command(cluster, "RestartJob")
    await cluster.reaches("j", "Restarting")

    async def made_again():
        pods = (await cluster.client.list(PODS, NS))[0]
        return len(pods) == 2 and not any("deletionTimestamp" in pod["metadata"] for pod in pods)

    await cluster.until(made_again)
    assert (await cluster.client.get(JOBS, Key(NS, "j")))["status"]["retryCount"] == 1


async def test_pods_on_a_lost_node_are_kept_by_default_and_the_job_still_obeys_commands(cluster):
    await running_job(cluster, None)
    await command(cluster, "RestartJob")
    await cluster.reaches("j", "Restarting")
    await command(cluster, "AbortJob")
    await cluster.reaches("j", "Aborting")
    await command(cluster, "TerminateJob")
    await cluster.reaches("j", "Terminating")

    async def heard():
        return not (await cluster.client.list(COMMANDS, NS))[0]

    await cluster.until(heard)
    assert len(await cluster.names(PODS)) == 2


async def test_job_names_its_pod_on_a_node_that_stops_to_answer_until_the_node_answers_again(cluster):
    cluster.holding.add("all")
    await running_job(cluster, "True")
    for ready, is_said in (("Unknown", True), ("True", False)):
        at = {"type": "Ready", "status": ready, "reason": "r", "message": "m", "lastTransitionTime": "2026-01-01T00:00:00Z"}
        await cluster.client.patch(NODES, Key("", "n1"), {"status": {"conditions": [at]}}, PatchKind.MERGE, subresource="status")

        async def is_as_said(*, is_said=is_said):
            message = (await cluster.client.get(JOBS, Key(NS, "j")))["status"]["state"]["message"]
            return ("NodeSilent: pod j-a-0 is on node n1 and 1 more pods" in message) == is_said

        await cluster.until(is_as_said)


async def test_terminating_pods_on_a_ready_node_are_not_given_up(cluster):
    await cluster.kill()
    await cluster.start(give_up_lost_pods_after="1s")
    await running_job(cluster, "True")
    uids = {pod["metadata"]["uid"] for pod in (await cluster.client.list(PODS, NS))[0]}
    await command(cluster, "RestartJob")
    await cluster.reaches("j", "Restarting")
    await asyncio.sleep(GRACE + 2)
    assert {pod["metadata"]["uid"] for pod in (await cluster.client.list(PODS, NS))[0]} == uids


PODS_EACH = 700
SECONDS_EACH = 1.0
"""Between two requests: what `--kube-api-qps` allows. All pods of a Job take longer than work may stand still."""


class Slow:
    """A client that may send one request about pods at a time."""

    def __init__(self, cluster: MemoryCluster) -> None:
        self.client: Any = cluster.replica.client
        self.turn, self.is_hung = asyncio.Lock(), False
        for verb in ("create", "patch", "delete"):
            self._slow_down(verb)

    def _slow_down(self, verb: str) -> None:
        do = getattr(self.client, verb)

        async def slowly(kind: ResourceType, *args: Any, **more: Any) -> Any:
            if kind is PODS:
                async with self.turn:
                    await asyncio.sleep(1e9 if self.is_hung else SECONDS_EACH)
            return await do(kind, *args, **more)

        setattr(self.client, verb, slowly)


async def complaints(cluster: MemoryCluster, seconds: float) -> list[str]:
    found = []
    for _ in range(int(seconds / 10)):
        await asyncio.sleep(10)
        found += [why for each in cluster.replica.controllers if (why := stuck(each)) is not None]
    return found


@virtual_cluster()
async def test_slow_creation_and_abort_of_large_jobs_are_not_reported_as_stuck(
    cluster: MemoryCluster,
) -> None:
    Slow(cluster)
    for name in ("a", "b"):
        cluster.job(name, task(replicas=PODS_EACH))
    await asyncio.sleep(1)
    cluster.admit()
    found = await complaints(cluster, 2 * PODS_EACH * SECONDS_EACH + 100)
    assert len(cluster.pods()) == 2 * PODS_EACH
    cluster.server.patch(JOBS, Key(NS, "a"), {"status": {"state": {"phase": "Aborting"}}}, PatchKind.MERGE)
    found += await complaints(cluster, PODS_EACH * SECONDS_EACH + 100)
    assert len(cluster.pods()) == PODS_EACH
    assert found == []


@virtual_cluster()
async def test_work_without_progress_is_reported_as_stuck_after_ten_minutes(cluster: MemoryCluster) -> None:
    slow = Slow(cluster)
    cluster.job("a", task(replicas=PODS_EACH))
    await cluster.until(lambda: cluster.server.of(POD_GROUPS))
    cluster.admit()
    early = await complaints(cluster, 100)
    slow.is_hung = True
    await asyncio.sleep(601)
    assert early == []
    (why,) = await complaints(cluster, 10)
    assert why.startswith("the work on one key has not got on for 61")


POLICIES: dict[str, dict[str, Any]] = {
    "at once": {"event": "Unknown", "action": "RestartJob"},
    "by any event": {"events": ["*"], "action": "RestartJob"},
    "after a while": {"event": "Unknown", "action": "RestartJob", "timeout": "30s"},
    "keeping the group": {"event": "Unknown", "action": "RestartTask"},
    "keeping the group, after a while": {"event": "Unknown", "action": "RestartTask", "timeout": "30s"},
}
"""A Job that restarts gets another PodGroup, unless only a part of it restarts."""


def turn(cluster: MemoryCluster, phase: str) -> None:
    for key in list(cluster.server.of(POD_GROUPS)):
        cluster.server.patch(POD_GROUPS, key, {"status": {"phase": phase}}, PatchKind.MERGE)


def replace(cluster: MemoryCluster) -> None:
    """Somebody else's tool made the PodGroup anew: the watch, which was cut, shows only that it is another."""
    ((key, group),) = cluster.server.of(POD_GROUPS).items()
    cluster.server.delete(POD_GROUPS, key)
    cluster.server.create(POD_GROUPS, group)


async def running(cluster: MemoryCluster, policy: dict[str, Any]) -> None:
    cluster.job("j", task(), policies=[policy], maxRetry=20)
    await asyncio.sleep(1)
    await run(cluster)
    turn(cluster, "Running")
    await asyncio.sleep(2)


async def run(cluster: MemoryCluster) -> None:
    for _ in range(5):
        await asyncio.sleep(3)
        cluster.admit()
        cluster.drain()
        cluster.run_pods()
    await asyncio.sleep(3)


async def restarted(cluster: MemoryCluster) -> None:
    await cluster.replica.kill()
    await cluster.start_controller()


def retries(cluster: MemoryCluster) -> int:
    return int(cluster.status("j").get("retryCount", 0))


@pytest.mark.parametrize("policy", POLICIES.values(), ids=POLICIES.keys())
@virtual_cluster()
async def test_podgroup_that_turns_unknown_during_a_downtime_triggers_its_policy_once(
    cluster: MemoryCluster, policy: dict[str, Any]
) -> None:
    await running(cluster, policy)
    await cluster.replica.kill()
    turn(cluster, "Unknown")
    await cluster.start_controller()
    seen = []
    for _ in range(3):  # still Unknown after the restart of the Job, and after those of the controller
        await asyncio.sleep(40)
        await run(cluster)
        seen.append(retries(cluster))
        await restarted(cluster)
    turn(cluster, "Running")
    await asyncio.sleep(5)
    await cluster.replica.kill()
    turn(cluster, "Unknown")
    await cluster.start_controller()
    await asyncio.sleep(40)
    await run(cluster)
    assert [*seen, retries(cluster)] == [1, 1, 1, 2]


@pytest.mark.parametrize("policy", POLICIES.values(), ids=POLICIES.keys())
@virtual_cluster()
async def test_podgroup_that_stays_unknown_triggers_its_policy_once_despite_controller_restarts(
    cluster: MemoryCluster, policy: dict[str, Any]
) -> None:
    await running(cluster, policy)
    turn(cluster, "Unknown")
    for _ in range(20):
        await asyncio.sleep(7)
        cluster.drain()
        cluster.run_pods()
        await restarted(cluster)
    assert retries(cluster) == 1


@virtual_cluster()
async def test_policy_is_triggered_each_time_a_podgroup_turns_unknown(cluster: MemoryCluster) -> None:
    await running(cluster, POLICIES["at once"])
    seen = []
    for _ in range(3):
        turn(cluster, "Unknown")
        await run(cluster)
        turn(cluster, "Running")
        await asyncio.sleep(5)
        seen.append(retries(cluster))
    assert seen == [1, 2, 3]


@virtual_cluster()
async def test_replaced_podgroup_that_is_unknown_triggers_the_policy_again(cluster: MemoryCluster) -> None:
    await running(cluster, POLICIES["keeping the group"])
    turn(cluster, "Unknown")
    await run(cluster)
    seen = [retries(cluster)]
    await cluster.replica.kill()
    replace(cluster)
    await cluster.start_controller()
    await run(cluster)
    assert [*seen, retries(cluster)] == [1, 2]


@virtual_cluster()
async def test_unknown_podgroup_is_not_recorded_when_no_policy_names_the_event(cluster: MemoryCluster) -> None:
    await running(cluster, {"event": "PodFailed", "action": "RestartJob"})
    turn(cluster, "Unknown")
    await asyncio.sleep(5)
    await restarted(cluster)
    await asyncio.sleep(5)
    assert "unknownPodGroup" not in cluster.status("j")


@virtual_cluster()
async def test_recorded_unknown_podgroup_is_cleared_when_the_podgroup_runs_again(cluster: MemoryCluster) -> None:
    await running(cluster, POLICIES["after a while"])
    seen = []
    for phase in ("Unknown", "Running"):
        turn(cluster, phase)
        await asyncio.sleep(5)
        seen.append("unknownPodGroup" in cluster.status("j"))
    assert seen == [True, False]
