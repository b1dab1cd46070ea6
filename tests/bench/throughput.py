"""How many pods per second the whole system starts, as a share of what a client without any logic reaches in the same run.

    python -m tests.bench.throughput [--control-plane real|embedded] [--nodes 500] [--jobs 10] [--pods 100] [--rounds 1]
        [--bind-pods] [--one-pod-without-group] [--silent-nodes]

The client without logic creates the pods and binds them, nothing else. All services run on the same machine in both parts. In
each further round as many Jobs come once those before are deleted. With `--silent-nodes` nobody plays the kubelets, which write
a status for each pod in both parts.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import itertools
import os
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Coroutine, Iterable
from datetime import datetime
from pathlib import Path
from typing import Any, TypeVar

from pyroclast.api.records import Pod
from pyroclast.api.types import JOBS, NAMESPACES, NODES, PODS, Key
from pyroclast.kube.basics.errors import NotFound
from pyroclast.kube.credentials.config import load_config
from pyroclast.kube.http.client import Client
from pyroclast.kube.watch.informer import Informer
from tests.e2e.support.cluster import FLAGS, Cluster, running

from .usage import cpu_seconds

T = TypeVar("T")
IN_FLIGHT = 48
WRITES = ("create", "update", "patch", "delete", "deletecollection")
SERVICES = ("admission", "controllers", "jobflow", "scheduler")
SECONDS = 600.0
REST_SECONDS = 90.0


def main() -> None:
    options = _options()
    FLAGS.extend(["--no-place-before-pods"] if options.bind_pods else [])
    FLAGS.extend(["--one-pod-without-group"] if options.one_pod_without_group else [])
    with (
        tempfile.TemporaryDirectory() as folder,
        running(options.control_plane, Path(folder), nodes=options.nodes) as cluster,
        cluster.standing_aside("nodes") if options.silent_nodes else contextlib.nullcontext(),
    ):
        asyncio.run(_measure(cluster, options))


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.bench.throughput", description=__doc__)
    parser.add_argument("--control-plane", choices=("real", "embedded"), default="real")
    parser.add_argument("--nodes", type=int, default=500)
    parser.add_argument("--jobs", type=int, default=10)
    parser.add_argument("--pods", type=int, default=100, help="of each Job")
    parser.add_argument("--rounds", type=int, default=1)
    parser.add_argument("--bind-pods", action="store_true", help="each pod is bound, as Volcano does")
    parser.add_argument("--one-pod-without-group", action="store_true", help="Jobs of one pod get no PodGroup")
    parser.add_argument("--silent-nodes", action="store_true", help="nobody writes that pods run")
    return parser.parse_args()


async def _measure(cluster: Cluster, options: argparse.Namespace) -> None:
    count = options.jobs * options.pods
    async with Client(load_config(str(cluster.kubeconfig)), max_in_flight=IN_FLIGHT) as client:
        for namespace in ("plain", "jobs"):
            await client.create(NAMESPACES, {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": namespace}})
        used = cpu_of_all(cluster)
        plain = await _without_logic(client, count)
        used_plain = used_since(used, cpu_of_all(cluster))
        await delete_all(client, "plain")
        print(f"{options.jobs} x {options.pods} pods, {options.nodes} nodes, {cluster.control_plane} control plane")
        print(f"  client without logic  {count / plain:8.0f} pods/s")
        for _ in range(options.rounds):
            began, used = time.time(), cpu_of_all(cluster)
            seconds = await _with_jobs(client, options.jobs, options.pods)
            await _at_rest(cluster, began)  # the bookkeeping after the last bind counts too
            used_jobs = used_since(used, cpu_of_all(cluster))
            print(f"  all services          {count / seconds:8.0f} pods/s   share {plain / seconds:.2f}")
            print("  CPU per pod, ms       without logic    all services")
            for name, cpu in used_jobs.items():
                print(f"    {name:24} {used_plain[name] / count * 1e3:8.2f} {cpu / count * 1e3:15.2f}")
            print_writes(cluster, began, count)
            _print_leases(cluster, began)
            print(f"  services that ended   {', '.join(_ended(cluster)) or 'none'}", flush=True)
            await _delete_jobs(client)


async def _without_logic(client: Client, count: int) -> float:
    """Seconds to create and bind `count` pods."""
    nodes = [node["metadata"]["name"] for node in (await client.list(NODES))[0]]

    async def create_and_bind(number: int) -> None:
        name = f"plain-{number}"
        body = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name}, "spec": _pod_spec() | {"schedulerName": "nobody"}}
        await client.create(PODS, body, namespace="plain")
        binding = {
            "apiVersion": "v1",
            "kind": "Binding",
            "metadata": {"name": name},
            "target": {"kind": "Node", "name": nodes[number % len(nodes)]},
        }
        await client.create(PODS, binding, namespace="plain", name=name, subresource="binding")

    began = time.monotonic()
    await each(range(count), create_and_bind)
    return time.monotonic() - began


async def each(items: Iterable[T], work: Callable[[T], Coroutine[Any, Any, object]]) -> None:
    """`work` of each of `items`, IN_FLIGHT at a time: waiting for one's turn is no part of the time of a request."""
    left = iter(items)

    async def some() -> None:
        for item in left:
            await work(item)

    async with asyncio.TaskGroup() as group:
        for _ in range(IN_FLIGHT):
            group.create_task(some())


async def _with_jobs(client: Client, jobs: int, pods: int) -> float:
    """Seconds from the first Job's create until all pods are bound."""

    async def submit(number: int) -> None:
        task = {"name": "worker", "replicas": pods, "template": {"spec": _pod_spec()}}
        spec = {"minAvailable": pods, "schedulerName": "volcano", "queue": "default", "tasks": [task]}
        body = {"apiVersion": JOBS.api_version, "kind": "Job", "metadata": {"name": f"j{number}"}, "spec": spec}
        await client.create(JOBS, body, namespace="jobs")

    bound: set[Key] = set()
    all_bound = asyncio.Event()

    def note(_old: Pod | None, new: Pod | None) -> None:
        if new is not None and new.spec.node_name:
            bound.add(new.key)
            if len(bound) == jobs * pods:
                all_bound.set()

    watched = Informer(client, PODS, Pod, namespace="jobs")
    watched.on_change(note)
    async with asyncio.timeout(SECONDS), asyncio.TaskGroup() as group:
        watching = group.create_task(watched.run())
        await watched.synced()
        began = time.monotonic()
        for number in range(jobs):
            group.create_task(submit(number))
        await all_bound.wait()
        watching.cancel()
    return time.monotonic() - began


async def _delete_jobs(client: Client) -> None:
    """The Jobs, and their pods sooner than garbage collection comes to them."""
    jobs = [Key("jobs", job["metadata"]["name"]) for job in (await client.list(JOBS, "jobs"))[0]]
    await each(jobs, lambda key: client.delete(JOBS, key))
    while (await client.list(PODS, "jobs"))[0]:
        await delete_all(client, "jobs")


async def delete_all(client: Client, namespace: str) -> None:
    keys = [Key(namespace, pod["metadata"]["name"]) for pod in (await client.list(PODS, namespace))[0]]

    async def delete(key: Key) -> None:
        with contextlib.suppress(NotFound):  # garbage collection was there first
            await client.delete(PODS, key, grace_seconds=0)

    await each(keys, delete)


def _pod_spec() -> dict[str, Any]:
    container = {
        "name": "main",
        "image": "busybox:1.37",
        "command": ["sleep", "3600"],
        "resources": {"requests": {"cpu": "100m", "memory": "64Mi"}},
    }
    return {"restartPolicy": "Never", "containers": [container]}


def cpu_of_all(cluster: Cluster) -> dict[str, float]:
    """CPU seconds of each process of the cluster and of this one so far."""
    pids = cluster.pids | {"this client": os.getpid()}
    if cluster.server is not None:
        pids |= {part.name: part.pid for part in cluster.server.plane.parts if part.pid is not None}
    return {name: cpu_seconds(pid) for name, pid in pids.items()}


def _ended(cluster: Cluster) -> list[str]:
    return [name for name, pid in cluster.pids.items() if not Path(f"/proc/{pid}").exists()]


def used_since(before: dict[str, float], after: dict[str, float]) -> dict[str, float]:
    return {name: seconds - before[name] for name, seconds in after.items()}


def _print_leases(cluster: Cluster, began: float) -> None:
    """The longest time between two renewals of each Lease of ours."""
    renewed: dict[str, list[datetime]] = {}
    for event in cluster.audit.events():
        reference = event.get("objectRef", {})
        is_renewal = reference.get("resource") == "leases" and event["verb"] in ("update", "patch")
        if (
            is_renewal
            and event["user"]["username"].rpartition(":pyroclast-")[2] in SERVICES
            and event["responseStatus"]["code"] < 300
        ):
            when = datetime.fromisoformat(event["stageTimestamp"])
            if when.timestamp() >= began:
                renewed.setdefault(reference["name"], []).append(when)
    for name, times in renewed.items():
        longest = max(((after - before).total_seconds() for before, after in itertools.pairwise(times)), default=0.0)
        print(f"  between two renewals at most {longest:5.1f} s: {name}")


async def _at_rest(cluster: Cluster, began: float) -> None:
    """Wait until the services write nothing but their Leases: on a busy machine statuses and events come long after the binds."""
    before, deadline = -1, time.monotonic() + REST_SECONDS
    while (now := _without_leases(_writes(cluster, began))) != before and time.monotonic() < deadline:
        before = now
        await asyncio.sleep(3)


def _without_leases(writes: Counter[tuple[str, str, str]]) -> int:
    return sum(count for (_, _, resource), count in writes.items() if resource != "leases")


def _writes(cluster: Cluster, began: float) -> Counter[tuple[str, str, str]]:
    """What the services wrote since `began`: account, verb, resource."""
    since = time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(began))
    writes: Counter[tuple[str, str, str]] = Counter()
    for event in cluster.audit.events():
        account = event["user"]["username"].rpartition(":pyroclast-")[2]
        if account in SERVICES and event["verb"] in WRITES and event["requestReceivedTimestamp"] >= since:
            reference = event["objectRef"]
            resource = "/".join(filter(None, [reference["resource"], reference.get("subresource")]))
            writes[account, event["verb"], resource] += 1
    return writes


def print_writes(cluster: Cluster, began: float, pods: int) -> None:
    writes = _writes(cluster, began)
    print(
        f"  writes per pod        {_without_leases(writes) / pods:8.2f}   (leases not counted, nor the user's create of each Job)"
    )
    for (account, verb, resource), count in writes.most_common():
        print(f"    {account:11} {verb:7} {resource:28} {count:6d}  {count / pods:.3f}")


if __name__ == "__main__":
    main()
