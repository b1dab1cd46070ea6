"""What the job controller needs with many Jobs: `python -m tests.bench.job_restart [--jobs 10000] [--pods 10]`.

A Job is brought to Running by the real controller on an API server in memory; copies of what is there then are listed to another
controller, which starts on them. Told are its CPU time and memory when all lists are read, when it has looked at each Job, and
how long after its start a Job that was made while it started has its PodGroup.
"""

from __future__ import annotations

import argparse
import asyncio
import gc
import json
import logging
import time
from collections.abc import Mapping

import structlog

from pyroclast.api.types import JOBS, POD_GROUPS, PODS, QUEUES, ResourceType
from tests.bench.substrate import pod
from tests.unit.job_controller.cluster import task
from tests.unit.job_controller.memory_cluster import MemoryCluster, Replica, in_virtual_time
from tests.unit.job_controller.memory_server import MemoryClient, MemoryServer

from .usage import memory

_STEP = 0.02


class Crowd(MemoryClient):
    """Lists copies of the objects of one Job beside what is really there; bodies are made page by page, never kept."""

    def __init__(self, server: MemoryServer, copies: Mapping[ResourceType, list[str]], count: int) -> None:
        super().__init__(server)
        self._copies, self._count = copies, count
        self.spent = 0.0
        """CPU seconds that the making of bodies took, which is no work of the controller."""

    async def list_page(self, kind: ResourceType, namespace: str, query: Mapping[str, str]) -> bytes:
        bodies = self._copies.get(kind, [])
        if not bodies or query.get("labelSelector", "").startswith("!"):
            return await super().list_page(kind, namespace, query)
        began, start = time.process_time(), int(query.get("continue") or 0)
        last = min(self._count, start + max(1, int(query.get("limit", "500")) // len(bodies)))
        items = [body.replace("@", f"{number:06d}") for number in range(start + 1, last + 1) for body in bodies]
        if last == self._count:
            items += [json.dumps(item) for item in self.server.of(kind).values()]
        meta = {"resourceVersion": str(self.server.version), "continue": str(last) if last < self._count else ""}
        body = f'{{"kind":"{kind.kind}List","metadata":{json.dumps(meta)},"items":[{",".join(items)}]}}'.encode()
        self.spent += time.process_time() - began
        return body


async def patterns(cluster: MemoryCluster, pods: int) -> dict[ResourceType, list[str]]:
    """The objects of a running Job as texts; `@` stands where one Job differs from the others."""
    cluster.job("pattern", task(replicas=pods), policies=[{"event": "PodFailed", "action": "RestartJob"}])
    await cluster.until(lambda: cluster.admit() or len(cluster.pods()) == pods)
    cluster.run_pods()
    await cluster.until(lambda: cluster.status("pattern").get("running") == pods)
    full = pod(1)
    found: dict[ResourceType, list[str]] = {}
    for kind in (JOBS, POD_GROUPS, PODS):
        found[kind] = []
        for body in cluster.server.of(kind).values():
            if kind is PODS:  # as large as pods are, with what the API server and nodes add
                body = {**body, "spec": {**full["spec"], **body["spec"]}, "status": {**full["status"], **body["status"]}}
            text = json.dumps(body).replace("pattern", "j@")
            found[kind].append(text.replace("00000000-0000-4000-8000-", "@00-0000-4000-8000-"))
    return found


async def measure(copies: Mapping[ResourceType, list[str]], jobs: int) -> None:
    """Start a controller on the crowd and tell what that needs."""
    server = MemoryServer()
    for name, parent in (("root", {}), ("default", {"parent": "root"})):
        meta, spec = {"name": name}, {"weight": 1, **parent}
        body = {"apiVersion": QUEUES.api_version, "kind": "Queue", "metadata": meta, "spec": spec, "status": {"state": "Open"}}
        server.create(QUEUES, body)
    replica = Replica(server, shards=1)
    replica.client = crowd = Crowd(server, copies, jobs)
    gc.collect()
    before, began, cpu = memory(), time.monotonic(), time.process_time()

    def tell(what: str) -> None:
        seconds, used = time.monotonic() - began, time.process_time() - cpu - crowd.spent
        print(f"{what}: {seconds:.1f} s, {used:.1f} s of CPU, {memory():.0f} MB ({memory() - before:.0f} more)")

    await replica.start()
    tell(f"{jobs} Jobs with {len(copies[PODS])} pods each are listed")
    replica.take(0)
    cluster = MemoryCluster.__new__(MemoryCluster)
    cluster.server, cluster.replica = server, replica
    cluster.job("new")
    while not any(key.name.startswith("new") for key in server.of(POD_GROUPS)):
        await asyncio.sleep(_STEP)
    tell("a new Job has its PodGroup")
    queue = next(each.queue for each in replica.controllers if each.name == "jobs")
    while len(queue):
        await asyncio.sleep(_STEP)
    tell("each Job was looked at")
    print(f"writes: {dict(server.writes)}")
    await replica.kill()


def main() -> None:
    """Make the pattern, then measure."""
    parser = argparse.ArgumentParser(prog="python -m tests.bench.job_restart", description=__doc__)
    parser.add_argument("--jobs", type=int, default=10_000)
    parser.add_argument("--pods", type=int, default=10, help="of each Job")
    options = parser.parse_args()
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.ERROR))
    copies = in_virtual_time(lambda cluster: patterns(cluster, options.pods))
    asyncio.run(measure(copies, options.jobs))


if __name__ == "__main__":
    main()
