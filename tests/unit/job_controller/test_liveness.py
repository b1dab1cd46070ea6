"""What counts as being stuck: work that does not get on, however long work that does may take."""

from __future__ import annotations

import asyncio
from typing import Any

from pyroclast.api.types import JOBS, POD_GROUPS, PODS, Key, ResourceType
from pyroclast.kube.http.client import PatchKind
from pyroclast.runtime.controllers import stuck

from .cluster import NS, task
from .memory_cluster import MemoryCluster, virtual_cluster

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
