"""A PodGroup that turns Unknown is answered exactly once, whoever watched when it did."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from pyroclast.api.types import POD_GROUPS
from pyroclast.kube.http.client import PatchKind

from .cluster import task
from .memory_cluster import MemoryCluster, virtual_cluster

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
