"""The cases of KAI's own scale test, run with Pyroclast alone, beside the times that KAI publishes for them.

KAI's times are those of `docs/scale-tests/example-results.json` in its repository: a run of 3 July 2026 with 500 simulated
nodes of 8 GPUs, on a cluster of five machines whose scheduler had 3 to 5 cores. Most begin when all pods exist. Ours begin
earlier, with the creation of the first Job.
"""

from __future__ import annotations

import contextlib
import statistics
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any

from pyroclast.api.types import HYPER_NODES, POD_GROUPS, PODS, QUEUES, Key
from pyroclast.kube.basics.errors import NotFound
from pyroclast.kube.credentials.config import load_config
from pyroclast.kube.http.client import Client
from tests.bench.peers.arena import OURS, Arena, Item, Task
from tests.bench.peers.objects import job
from tests.bench.throughput import IN_FLIGHT
from tests.e2e.support.cluster import Cluster

GPU, GPUS, NODES = "nvidia.com/gpu", 8, 500
FULL, OWNER, SHORT = "full", "owner", "short"
"""Queues: one that deserves nothing, one that deserves everything, and one that deserves a GPU too few for a gang of 80."""

MEMBERS = 10  # pods of a gang
TIERS = (2, 16, 128)  # nodes of a rack, a block and a zone
SAMPLES = 5


@dataclass(frozen=True, slots=True)
class Case:
    """What is measured for a number of nodes, in seconds; `published`: those that KAI took with 500 nodes."""

    about: str
    published: float
    measure: Callable[[Arena, int], Awaitable[float]]


def _job(name: str, size: int, gpus: int, queue: str, **more: object) -> Item:
    return job(OURS, name, size, {GPU: str(gpus)}, queue, **more)  # type: ignore[arg-type]


def _full(nodes: int, prefix: str = "full", queue: str = FULL) -> list[Item]:
    return [_job(f"{prefix}-{number}", 1, 1, queue) for number in range(nodes * GPUS)]


async def _fill(arena: Arena, nodes: int) -> float:
    return (await arena.run(Task(_full(nodes), nodes * GPUS))).seconds


async def _topology(arena: Arena, nodes: int) -> float:
    gang = _job("gang", nodes, 2, FULL, networkTopology={"mode": "soft"})
    return (await arena.run(Task([gang], nodes))).seconds


async def _reclaim_all(arena: Arena, nodes: int) -> float:
    """As many Jobs again, which get everything."""
    takers = _full(nodes, "taker", OWNER)
    return (await arena.run(Task(takers, len(takers), before=_full(nodes), placed=nodes * GPUS))).seconds


async def _reclaim_gangs(arena: Arena, nodes: int) -> float:
    takers = [_job(f"taker-{number}", MEMBERS, GPUS // 2 + 1, OWNER) for number in range(nodes // MEMBERS)]
    return (await arena.run(Task(takers, MEMBERS * len(takers), before=_full(nodes), placed=nodes * GPUS))).seconds


async def _reclaim_large(arena: Arena, nodes: int) -> float:
    taker = _job("taker", nodes // 2, GPUS, OWNER)
    return (await arena.run(Task([taker], nodes // 2, before=_full(nodes), placed=nodes * GPUS))).seconds


async def _reclaim_one(arena: Arena, nodes: int) -> float:
    takers = [_job(f"taker-{number}", 1, 1, OWNER) for number in range(SAMPLES)]

    async def is_bound(namespace: str, made: dict[str, Any]) -> bool:
        with contextlib.suppress(NotFound):
            pod = await arena.client.get(PODS, Key(namespace, f"{made['metadata']['name']}-main-0"))
            return bool(pod["spec"].get("nodeName"))
        return False

    return await arena.one_by_one(Task(takers, SAMPLES, before=_full(nodes), placed=nodes * GPUS), is_bound)


async def _verdict(arena: Arena, nodes: int) -> float:
    """Until the PodGroup of a gang says that it is unschedulable: its last pod can have no room."""
    gangs = [_job(f"gang-{number}", MEMBERS, GPUS, SHORT) for number in range(SAMPLES)]

    async def is_refused(namespace: str, made: dict[str, Any]) -> bool:
        meta = made["metadata"]
        with contextlib.suppress(NotFound):
            group = await arena.client.get(POD_GROUPS, Key(namespace, f"{meta['name']}-{meta['uid']}"))
            conditions = (group.get("status") or {}).get("conditions") or ()
            if any(each["type"] == "Unschedulable" and each["status"] == "True" for each in conditions):
                pods, _ = await arena.client.list(PODS, namespace)
                assert sum(bool(pod["spec"].get("nodeName")) for pod in pods) == nodes * GPUS, "pods were evicted in vain"
                return True
        return False

    return await arena.one_by_one(Task(gangs, SAMPLES, before=_full(nodes), placed=nodes * GPUS), is_refused)


async def _burst(arena: Arena, nodes: int) -> float:
    """Gangs of whole nodes in all powers of two, each for 30 s: 90 of each size on 500 nodes."""
    sizes = [size for power in range(10) if (size := 2**power) <= nodes]
    count = max(1, 90 * nodes // NODES)
    gangs = [_job(f"gang-{size}-{n}", size, GPUS, FULL, seconds=30) for size in sizes for n in range(count)]
    return (await arena.run(Task(gangs, count * sum(sizes), "ended"))).seconds


CASES = {
    "fill": Case("Jobs of one GPU fill all nodes", 460.5, _fill),
    "fabric": Case("a gang with a pod of two GPUs for each node, near each other if possible", 48.7, _topology),
    "verdict": Case("the verdict that a gang of 80 GPUs cannot reclaim its last pod", 249.5, _verdict),
    "reclaim-one": Case("a Job of one GPU reclaims it, on average", 13.9, _reclaim_one),
    "reclaim-large": Case("a gang of half of the nodes reclaims them", 102.0, _reclaim_large),
    "reclaim-all": Case("Jobs of one GPU reclaim all GPUs", 694.5, _reclaim_all),
    "reclaim-gangs": Case("gangs of 10 pods of 5 GPUs reclaim 5 of 8 GPUs of all nodes", 716.9, _reclaim_gangs),
    "burst": Case("gangs of 1 to 512 whole nodes, 30 s each; KAI ended with 12,651 of 45,990 pods completed", 5098.7, _burst),
}


async def measure(cluster: Cluster, nodes: int, names: list[str], rounds: int) -> None:
    async with Client(load_config(str(cluster.kubeconfig)), max_in_flight=IN_FLIGHT) as client:
        arena = Arena(cluster, client, {})
        await arena.create("default", [*_queues(nodes), *_hyper_nodes(nodes)])
        print(f"\n{nodes} nodes of {GPUS} GPUs; KAI had {NODES}", flush=True)
        for name in names:
            case = CASES[name]
            seconds = [await case.measure(arena, nodes) for _ in range(rounds)]
            middle = statistics.median(seconds)
            ratio = f"KAI/ours {case.published / middle:.1f}" if nodes == NODES else "another size, so no ratio"
            print(
                f"  {name:14} {middle:8.2f} s   KAI {case.published:7.1f} s   {ratio}   {case.about}   "
                f"all of ours: {' '.join(f'{each:.2f}' for each in seconds)}",
                flush=True,
            )


def _queues(nodes: int) -> list[Item]:
    shares = {FULL: 0, OWNER: nodes * GPUS, SHORT: MEMBERS * GPUS - 1}
    return [
        Item(QUEUES, {"metadata": {"name": name}, "spec": {"deserved": {GPU: str(share)}, "reclaimable": True}})
        for name, share in shares.items()
    ]


def _hyper_nodes(nodes: int) -> list[Item]:
    """Racks of nodes, blocks of racks, zones of blocks."""
    found = []
    below, size = "node", 1
    for tier, width in enumerate(TIERS, 1):
        for number in range(-(-nodes // width)):
            members = range(number * width // size, -(-min((number + 1) * width, nodes) // size))
            kind = "Node" if tier == 1 else "HyperNode"
            chosen = [{"type": kind, "selector": {"exactMatch": {"name": f"{below}-{at}"}}} for at in members]
            body = {"metadata": {"name": f"tier{tier}-{number}"}, "spec": {"tier": tier, "members": chosen}}
            found.append(Item(HYPER_NODES, body))
        below, size = f"tier{tier}", width
    return found
