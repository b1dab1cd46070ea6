"""What the substrate costs: `python -m tests.bench.substrate`.

A process of its own streams watch events of a pod as batch Jobs make them, and answers requests at once. Told are the pace
seen and the CPU time of the informer and of the client, whose inverse is what one core of their own would do: other programs
may share this machine.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import multiprocessing
import resource
import subprocess
import sys
import time
from collections.abc import Awaitable, Callable
from multiprocessing.sharedctypes import Synchronized
from typing import Any

import aiohttp
import orjson
import uvloop

from pyroclast.api.records.pods import Pod
from pyroclast.api.types import PODS
from pyroclast.kube.credentials.config import ClusterConfig
from pyroclast.kube.http.client import Client
from pyroclast.kube.watch.informer import Informer

from .usage import fixed_loop

EVENTS = 50_000
REQUESTS = 10_000
ROUND = 480  # requests
BINDING = {
    "apiVersion": "v1",
    "kind": "Binding",
    "metadata": {"name": "job-1-worker-0", "namespace": "team-a"},
    "target": {"apiVersion": "v1", "kind": "Node", "name": "node-17"},
}


def pod(number: int) -> dict[str, Any]:
    """A running pod of a Job, 3 kB."""
    since = "2026-01-01T10:00:00Z"
    tolerations = [
        {"key": f"node.kubernetes.io/{key}", "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 300}
        for key in ("not-ready", "unreachable")
    ]
    container = {
        "name": "main",
        "image": "registry.example.org/team/train:1.2.3",
        "command": ["python", "-m", "train", "--epochs", "10"],
        "env": [{"name": f"VC_WORKER_{index}_HOSTS", "value": f"job-{number}-worker-{index}.job-{number}"} for index in range(8)],
        "resources": {"requests": {"cpu": "500m", "memory": "1Gi"}, "limits": {"cpu": "1", "memory": "1Gi"}},
        "ports": [{"containerPort": 2222, "name": "peer", "protocol": "TCP"}],
        "volumeMounts": [
            {"name": "hosts", "mountPath": "/etc/volcano"},
            {"name": "token", "mountPath": "/var/run/secrets", "readOnly": True},
        ],
        "imagePullPolicy": "IfNotPresent",
    }
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "name": f"job-{number % 500}-worker-{number % 20}",
            "namespace": "team-a",
            "uid": f"0d1f8c3e-0000-4000-8000-{number:012d}",
            "resourceVersion": str(number + 2),
            "generation": 1,
            "creationTimestamp": since,
            "labels": {"volcano.sh/job-name": "job-1", "volcano.sh/task-spec": "worker", "volcano.sh/queue-name": "default"},
            "annotations": {
                "scheduling.k8s.io/group-name": "job-1-abc",
                "volcano.sh/job-version": "0",
                "volcano.sh/task-index": "3",
            },
            "ownerReferences": [
                {"apiVersion": "batch.volcano.sh/v1alpha1", "kind": "Job", "name": "job-1", "uid": "u" * 36, "controller": True}
            ],
        },
        "spec": {
            "schedulerName": "volcano",
            "nodeName": "node-17",
            "priority": 0,
            "containers": [container],
            "tolerations": tolerations,
            "volumes": [
                {"name": "hosts", "configMap": {"name": "job-1-svc", "defaultMode": 420}},
                {
                    "name": "token",
                    "projected": {"sources": [{"serviceAccountToken": {"expirationSeconds": 3607, "path": "token"}}]},
                },
            ],
            "restartPolicy": "OnFailure",
            "serviceAccountName": "default",
            "terminationGracePeriodSeconds": 30,
        },
        "status": {
            "phase": "Running",
            "conditions": [
                {"type": name, "status": "True", "lastTransitionTime": since} for name in ("Initialized", "Ready", "PodScheduled")
            ],
            "podIP": "10.0.0.17",
            "startTime": since,
            "containerStatuses": [{"name": "main", "ready": True, "restartCount": 0, "state": {"running": {"startedAt": since}}}],
        },
    }


def serve(port: Synchronized[int]) -> None:
    """The server: an empty list, a watch of many events, and 201 to the rest."""
    lines = [json.dumps({"type": "MODIFIED", "object": pod(number)}).encode() + b"\n" for number in range(EVENTS)]
    chunks = [b"%x\r\n%b\r\n" % (len(line), line) for line in lines]
    empty = b'{"metadata":{"resourceVersion":"1"},"items":[]}'
    created = b'{"kind":"Status","status":"Success","code":201}'

    async def handle(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(ConnectionError, asyncio.IncompleteReadError):
            await answer(reader, writer)

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while True:
            head = await reader.readuntil(b"\r\n\r\n")
            length = next((int(line[15:]) for line in head.lower().split(b"\r\n") if line.startswith(b"content-length:")), 0)
            await reader.readexactly(length)
            if b"watch=true" in head:
                writer.write(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n")
                for chunk in chunks:
                    writer.write(chunk)
                    await writer.drain()
            else:
                body = empty if head.startswith(b"GET") else created
                writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%b" % (len(body), body))

    async def run() -> None:
        server = await asyncio.start_server(handle, "127.0.0.1", 0)
        port.value = server.sockets[0].getsockname()[1]
        await server.serve_forever()

    uvloop.run(run())


async def measure(port: int) -> None:
    """Print the figures."""
    async with Client(ClusterConfig(f"http://127.0.0.1:{port}")) as client:
        await measure_informer(client)
        for in_flight in (1, 48):
            await measure_requests(client, port, in_flight)


async def measure_informer(client: Client) -> None:
    """Events through an informer with two indexes and a handler."""
    indexers = {
        "node": lambda pod: (pod.spec.node_name,),
        "owner": lambda pod: [owner.uid for owner in pod.metadata.owner_references],
    }
    informer = Informer(client, PODS, Pod, indexers=indexers)
    seen, done = 0, asyncio.Event()

    def count(_old: Pod | None, _new: Pod | None) -> None:
        nonlocal seen
        seen += 1
        if seen == EVENTS:
            done.set()

    informer.on_change(count)
    began, cpu = time.perf_counter(), time.process_time()
    running = asyncio.ensure_future(informer.run())
    await done.wait()
    wall, cpu = time.perf_counter() - began, time.process_time() - cpu
    running.cancel()
    print(
        f"informer: {EVENTS / wall:,.0f} events/s seen, {cpu / EVENTS * 1e6:.1f} µs of CPU each ({EVENTS / cpu:,.0f}/s on a core)"
    )


async def measure_requests(client: Client, port: int, in_flight: int) -> None:
    """Bindings, so many at a time: those of the client and of a bare session of aiohttp in turn, beside a fixed loop.

    Of many short rounds the cheapest counts: what else runs on the machine only ever makes one dearer.
    """
    url = f"http://127.0.0.1:{port}{PODS.path('team-a', 'job-1-worker-0', 'binding')}"
    body = orjson.dumps(BINDING)

    async def ours() -> None:
        await client.create(PODS, BINDING, name="job-1-worker-0", subresource="binding")

    async def bare() -> None:
        async with session.post(url, data=body) as answer:
            orjson.loads(await answer.read())

    rounds: dict[str, list[float]] = {"client": [], "aiohttp": [], "loop": []}
    async with aiohttp.ClientSession(cookie_jar=aiohttp.DummyCookieJar()) as session:
        for _ in range(REQUESTS // ROUND):
            rounds["client"].append(await cpu_of(ours, in_flight))
            rounds["aiohttp"].append(await cpu_of(bare, in_flight))
            rounds["loop"].append(fixed_loop())
    least = {name: min(found) * 1e6 for name, found in rounds.items()}
    print(
        f"client, {in_flight} in flight: {least['client']:.0f} µs of CPU a request ({1e6 / least['client']:,.0f}/s on a core), "
        f"a bare session of aiohttp {least['aiohttp']:.0f} µs; fixed loop {least['loop'] / 1000:.1f} ms"
    )


async def cpu_of(ask: Callable[[], Awaitable[None]], in_flight: int) -> float:
    """CPU seconds of one of a round of requests, so many at a time."""

    async def work() -> None:
        for _ in range(ROUND // in_flight):
            await ask()

    cpu = time.process_time()
    await asyncio.gather(*(work() for _ in range(in_flight)))
    return (time.process_time() - cpu) / (ROUND // in_flight * in_flight)


def measure_import() -> None:
    """CPU time and memory of a process that has loaded the whole substrate."""
    code = (
        "import pyroclast.runtime.service, pyroclast.runtime.leadership, resource as r; u = r.getrusage(r.RUSAGE_SELF);"
        "print(u.ru_utime + u.ru_stime, u.ru_maxrss)"
    )
    runs = [
        subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.split() for _ in range(5)
    ]
    seconds, kilobytes = min((float(cpu), int(memory)) for cpu, memory in runs)
    print(f"import of runtime and kube: {seconds * 1000:.0f} ms of CPU, {kilobytes / 1024:.0f} MB resident")


def main() -> int:
    """Run all."""
    port: Synchronized[int] = multiprocessing.Value("i", 0)
    server = multiprocessing.Process(target=serve, args=(port,), daemon=True)
    server.start()
    while not port.value:
        time.sleep(0.05)
    uvloop.run(measure(port.value))
    server.terminate()
    measure_import()
    print(f"peak memory of this process: {resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024:.0f} MB")
    return 0


if __name__ == "__main__":
    sys.exit(main())
