"""What the services need beside 150,000 pods: `python -m tests.bench.crowd [--pods 150000] [--nodes 5000] [--changes 10000]`.

A real control plane is filled with pods that stand on nodes, 20 to a PodGroup. Then each service is started: told are the seconds
until it is ready, the most memory it had and for how long its event loop was held. Then nodes say of many pods that they run, as
fast as the API server takes it, and the services follow.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import re
import sys
import tempfile
import time
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import aiohttp

from pyroclast.api.types import NAMESPACES, NODES, POD_GROUPS, PODS, Key
from pyroclast.kube.credentials.config import load_config
from pyroclast.kube.http.client import Client, PatchKind
from pyroclast_standalone import installation
from pyroclast_standalone.processes import free_port
from tests.bench.substrate import pod
from tests.bench.throughput import IN_FLIGHT, each
from tests.control_plane.real import real_control_plane

from .usage import memory

TOGETHER = 20
"""Pods of one PodGroup."""
PATIENCE = 300.0
QUIET_SECONDS, IDLE = 5.0, 0.1
"""A service has nothing to do that takes less than this share of a core for so long."""
NAMESPACE = "team-a"
COMMON = ("--enable-healthz=true", "--enable-metrics=true", "--leader-elect-resource-namespace=pyroclast-system")
SERVICES = {  # admission first: the scheduler is ready when it has made its queues, which admission looks at
    "admission": (
        "pyroclast_admission",
        "--metrics-address=127.0.0.1:{metrics}",
        "--port={port}",
        "--webhook-url=https://127.0.0.1:{port}",
        "--webhook-namespace=pyroclast-system",
        *COMMON[:2],
    ),
    "scheduler": ("pyroclast_scheduler", "--listen-address=127.0.0.1:{metrics}", *COMMON),
    "job controller": ("pyroclast_job_controller", "--listen-address=127.0.0.1:{metrics}", *COMMON),
    "jobflow controller": ("pyroclast_jobflow_controller", "--listen-address=127.0.0.1:{metrics}", *COMMON),
}


def main() -> None:
    """Fill, start, follow."""
    parser = argparse.ArgumentParser(prog="python -m tests.bench.crowd", description=__doc__)
    parser.add_argument("--pods", type=int, default=150_000)
    parser.add_argument("--nodes", type=int, default=5_000)
    parser.add_argument("--changes", type=int, default=10_000, help="pods that begin to run while the services follow")
    options = parser.parse_args()
    asyncio.run(_measure(options))


async def _measure(options: argparse.Namespace) -> None:
    async with contextlib.AsyncExitStack() as stack:
        folder = stack.enter_context(tempfile.TemporaryDirectory())
        plane = await stack.enter_async_context(real_control_plane(Path(folder), fsync=False))
        client = await stack.enter_async_context(Client(load_config(str(plane.kubeconfig)), max_in_flight=IN_FLIGHT))
        session = await stack.enter_async_context(aiohttp.ClientSession())
        port = free_port()
        objects = installation.objects(f"https://127.0.0.1:{port}")
        await installation.apply(client, [each for each in objects if not each["kind"].endswith("WebhookConfiguration")])
        began = time.monotonic()
        await _fill(client, options.pods, options.nodes)
        print(f"{options.pods:,} pods on {options.nodes:,} nodes were made in {time.monotonic() - began:.0f} s", flush=True)
        await installation.apply(client, objects)
        services = []
        for name, flags in SERVICES.items():
            began = time.monotonic()
            service = await stack.enter_async_context(_running(name, flags, plane.kubeconfig, port))
            await service.ready(session)
            print(f"{name:20} is ready after {time.monotonic() - began:.1f} s", flush=True)
            services.append(service)
        for service in services:
            await service.tell(session, "listed")
        began = time.monotonic()
        await each(range(options.changes), lambda number: _run(client, number))
        print(f"{options.changes:,} pods began to run, {options.changes / (time.monotonic() - began):.0f}/s", flush=True)
        for service in services:
            await service.tell(session, "followed")


async def _fill(client: Client, pods: int, nodes: int) -> None:
    """Nodes, a namespace, and pods in groups of TOGETHER, each on a node."""
    await client.create(NAMESPACES, {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE}})
    await each(range(nodes), lambda number: client.create(NODES, _node(number)))
    await each(range(pods // TOGETHER), lambda number: client.create(POD_GROUPS, _group(number), namespace=NAMESPACE))
    await each(range(pods), lambda number: client.create(PODS, _pod(number, nodes), namespace=NAMESPACE))


def _node(number: int) -> dict[str, Any]:
    has = {"cpu": "32", "memory": "256Gi", "pods": "110"}
    name = f"node-{number}"
    metadata = {"name": name, "labels": {"kubernetes.io/hostname": name}}
    return {"apiVersion": "v1", "kind": "Node", "metadata": metadata, "status": {"allocatable": has, "capacity": has}}


def _group(number: int) -> dict[str, Any]:
    return {
        "apiVersion": POD_GROUPS.api_version,
        "kind": "PodGroup",
        "metadata": {"name": f"group-{number}", "namespace": NAMESPACE},
        "spec": {"minMember": TOGETHER, "queue": "default"},
        "status": {"phase": "Running"},
    }


def _pod(number: int, nodes: int) -> dict[str, Any]:
    """One without an owner, which the garbage collector would miss."""
    full = pod(number)
    metadata = {
        "name": f"pod-{number}",
        "namespace": NAMESPACE,
        "labels": full["metadata"]["labels"],
        "annotations": full["metadata"]["annotations"] | {"scheduling.k8s.io/group-name": f"group-{number // TOGETHER}"},
    }
    container = {key: value for key, value in full["spec"]["containers"][0].items() if key != "volumeMounts"}
    container["resources"] = {"requests": {"cpu": "100m", "memory": "64Mi"}}
    spec = {"schedulerName": "volcano", "nodeName": f"node-{number % nodes}", "containers": [container]}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec}


async def _run(client: Client, number: int) -> None:
    status = {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]}
    key = Key(NAMESPACE, f"pod-{number}")
    await client.patch(PODS, key, {"status": status}, PatchKind.MERGE, subresource="status")


class _Service:
    """A service as a process, asked by its own metrics."""

    def __init__(self, name: str, process: asyncio.subprocess.Process, health: int, metrics: int) -> None:
        self.name = name
        self._process = process
        self._health, self._metrics = f"http://127.0.0.1:{health}/readyz", f"http://127.0.0.1:{metrics}/metrics"
        self._seen: dict[str, float] = {}

    async def ready(self, session: aiohttp.ClientSession) -> None:
        """Wait until it says so."""
        async with asyncio.timeout(PATIENCE):
            while not await self._is_ready(session):
                assert self._process.returncode is None, f"{self.name} ended"
                await asyncio.sleep(0.2)

    async def quiet(self, session: aiohttp.ClientSession) -> dict[str, float]:
        """Its figures, when it has had nothing to do for a while."""
        used = -1.0
        async with asyncio.timeout(PATIENCE):
            while (figures := await self._figures(session))["cpu"] > used + IDLE * QUIET_SECONDS:
                used = figures["cpu"]
                await asyncio.sleep(QUIET_SECONDS)
        return figures

    async def tell(self, session: aiohttp.ClientSession, what: str) -> None:
        """Print what it had until now, and its longest stops since the last time."""
        now, before = await self.quiet(session), self._seen
        self._seen = now
        times = now["turns"] - now["short"] - before.get("turns", 0) + before.get("short", 0)
        print(
            f"{self.name:20} {what:9} {now['rss'] / 1e6:6.0f} MB, at most {memory(self._process.pid, 'VmHWM'):6.0f};"
            f" {now['events'] - before.get('events', 0):8,.0f} events; CPU {now['cpu'] - before.get('cpu', 0):6.1f} s;"
            f" loop held over 50 ms {times:4.0f} times, at most {now['worst'] * 1e3:5.0f} ms so far,"
            f" {now['latest'] * 1e3:5.0f} with what it waited for a core",
            flush=True,
        )

    async def _is_ready(self, session: aiohttp.ClientSession) -> bool:
        try:
            async with session.get(self._health) as answer:
                return answer.status == 200
        except aiohttp.ClientError:
            return False

    async def _figures(self, session: aiohttp.ClientSession) -> dict[str, float]:
        async with session.get(self._metrics) as answer:
            text = await answer.text()
        return {
            what: sum(float(found) for found in re.findall(rf"^{series} (\S+)", text, re.MULTILINE))
            for what, series in {
                "rss": "process_resident_memory_bytes",
                "cpu": "process_cpu_seconds_total",
                "turns": "pyroclast_event_loop_held_seconds_count",
                "short": r'pyroclast_event_loop_held_seconds_bucket\{le="0.05"\}',
                "worst": "pyroclast_event_loop_held_max_seconds",
                "latest": "pyroclast_event_loop_lag_max_seconds",
                "events": r"pyroclast_watch_events_total\{.*\}",
            }.items()
        }


@contextlib.asynccontextmanager
async def _running(name: str, flags: tuple[str, ...], kubeconfig: Path, webhook_port: int) -> AsyncIterator[_Service]:
    health, metrics = free_port(), free_port()
    module, *rest = (flag.format(metrics=metrics, port=webhook_port) for flag in flags)
    command = [sys.executable, "-m", module, f"--kubeconfig={kubeconfig}", f"--healthz-address=127.0.0.1:{health}", *rest]
    process = await asyncio.create_subprocess_exec(*command, "--log-level=error")
    try:
        yield _Service(name, process, health, metrics)
    finally:
        if process.returncode is None:
            process.terminate()
        await process.wait()


if __name__ == "__main__":
    main()
