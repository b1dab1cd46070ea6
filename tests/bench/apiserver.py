"""How fast the embedded API server is: `python -m tests.bench.apiserver` prints a table.

Server and client run in processes of their own, each on one core where there are two. The client speaks raw HTTP over TLS on
kept connections. Latency is told from the moment a write is sent to the moment its event is read.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import ssl
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import orjson
import uvloop

from .http import Connection, message

POD: dict[str, Any] = {
    "apiVersion": "v1",
    "kind": "Pod",
    "metadata": {
        "labels": {"app": "bench", "volcano.sh/job-name": "bench"},
        "annotations": {"scheduling.k8s.io/group-name": "bench", "volcano.sh/task-spec": "worker"},
    },
    "spec": {
        "schedulerName": "volcano",
        "containers": [
            {
                "name": "main",
                "image": "busybox:1.36",
                "command": ["sh", "-c", "sleep 10"],
                "env": [{"name": "VC_TASK_INDEX", "value": "0"}],
                "resources": {"requests": {"cpu": "100m", "memory": "64Mi"}},
            }
        ],
    },
}


class Server:
    """The server as a process."""

    def __init__(self, directory: Path, core: int | None) -> None:
        command = [sys.executable, "-m", "pyroclast_standalone.apiserver", "--data-dir", str(directory), "--port", "0"]
        self._process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
        if core is not None:
            os.sched_setaffinity(self._process.pid, {core})
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        self.url = line.split()[1]
        self.kubeconfig = directory / "kubeconfig"

    def rss(self) -> float:
        """Resident memory in MB."""
        for line in Path(f"/proc/{self._process.pid}/status").read_text().splitlines():
            if line.startswith("VmRSS"):
                return int(line.split()[1]) / 1024
        return 0.0

    def cpu(self) -> float:
        """CPU seconds used so far."""
        fields = Path(f"/proc/{self._process.pid}/stat").read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    def stop(self) -> None:
        """End the process."""
        self._process.terminate()
        self._process.wait()


def tls_of(server: Server) -> ssl.SSLContext:
    """The administrator's certificate."""
    config = orjson.loads(server.kubeconfig.read_bytes())
    user, cluster = config["users"][0]["user"], config["clusters"][0]["cluster"]
    context = ssl.create_default_context(cafile=cluster["certificate-authority"])
    context.load_cert_chain(user["client-certificate"], user["client-key"])
    return context


class Clients:
    """Connections of the administrator, as many as are asked for at once; a connection is used again."""

    def __init__(self, server: Server) -> None:
        self._url, self._tls = server.url, tls_of(server)
        self._idle: list[Connection] = []

    async def ask(self, request: bytes) -> bytes:
        """The body of the answer to one request."""
        connection = self._idle.pop() if self._idle else await Connection.open(self._url, self._tls)
        body = await connection.ask(request)
        self._idle.append(connection)
        return body

    async def watch(self, path: str) -> AsyncIterator[bytes]:
        """The lines of a watch, on a connection of its own."""
        connection = await Connection.open(self._url, self._tls)
        try:
            async for line in connection.watch(path):
                yield line
        finally:
            connection.close()

    def close(self) -> None:
        """Hang up."""
        for connection in self._idle:
            connection.close()


async def many(clients: Clients, requests: list[bytes], in_flight: int) -> float:
    """Send all requests, `in_flight` at a time; requests per second."""
    waiting = iter(requests)

    async def worker() -> None:
        for request in waiting:
            await clients.ask(request)

    begun = time.perf_counter()
    await asyncio.gather(*(worker() for _ in range(in_flight)))
    return len(requests) / (time.perf_counter() - begun)


async def pace(server: Server, clients: Clients, what: str, requests: list[bytes]) -> tuple[str, str]:
    """What the server reaches beside this client, and what a core that does nothing else would."""
    before = server.cpu()
    seen = await many(clients, requests, 32)
    each = (server.cpu() - before) / len(requests)
    return f"{what}/s", f"{seen:.0f}  ({each * 1e6:.0f} µs CPU each = {1 / each:.0f}/s per core)"


PODS = "/api/v1/namespaces/default/pods"
MERGE = "application/merge-patch+json"


def creates(first: int, count: int) -> list[bytes]:
    """Requests that make pods."""
    names = [f"pod-{number:06}" for number in range(first, first + count)]
    return [message("POST", PODS, orjson.dumps({**POD, "metadata": {**POD["metadata"], "name": name}})) for name in names]


def patches(first: int, count: int, value: str) -> list[bytes]:
    """Requests that change a label."""
    body = orjson.dumps({"metadata": {"labels": {"bench": value}}})
    return [message("PATCH", f"{PODS}/pod-{number:06}", body, MERGE) for number in range(first, first + count)]


async def watch(clients: Clients, revision: str, count: int, seen: list[float]) -> None:
    """Read `count` events and note when each came."""
    async for _ in clients.watch(f"{PODS}?watch=true&resourceVersion={revision}"):
        seen.append(time.perf_counter())
        if len(seen) == count:
            return


async def revision_of(clients: Clients) -> str:
    """The current revision."""
    return str(orjson.loads(await clients.ask(message("GET", f"{PODS}?limit=1")))["metadata"]["resourceVersion"])


async def fan_out(clients: Clients, watchers: int, count: int) -> float:
    """Events per second that all watchers together receive."""
    revision = await revision_of(clients)
    begun = time.perf_counter()
    seen: list[list[float]] = [[] for _ in range(watchers)]
    readers = [asyncio.ensure_future(watch(clients, revision, count, each)) for each in seen]
    await asyncio.sleep(0.2)
    begun = time.perf_counter()
    await many(clients, patches(0, count, f"fan-{watchers}"), 16)
    await asyncio.gather(*readers)
    return watchers * count / (max(each[-1] for each in seen) - begun)


async def latency(clients: Clients, rate: int, seconds: int) -> tuple[float, float]:
    """Milliseconds (p50, p99) from sending a write to reading its event, at `rate` writes per second with three watchers."""
    revision = await revision_of(clients)
    count = rate * seconds
    seen: list[list[float]] = [[], [], []]
    readers = [asyncio.ensure_future(watch(clients, revision, count, each)) for each in seen]
    await asyncio.sleep(0.2)
    sent: list[float] = []
    tasks = []
    begun = time.perf_counter()
    for number in range(count):
        due = begun + number / rate
        while (left := due - time.perf_counter()) > 0:
            await asyncio.sleep(left)
        sent.append(time.perf_counter())
        tasks.append(asyncio.ensure_future(clients.ask(*patches(number, 1, f"lat-{rate}"))))
    await asyncio.gather(*tasks, *readers)
    delays = sorted((arrived - left) * 1000 for each in seen for left, arrived in zip(sent, each, strict=True))
    return statistics.median(delays), delays[int(len(delays) * 0.99)]


async def measure(server: Server, count: int) -> list[tuple[str, str]]:
    """All figures."""
    rows = [("memory after start", f"{server.rss():.0f} MB")]
    clients = Clients(server)
    await many(clients, creates(900_000, 300), 32)
    rows.append(await pace(server, clients, "creates", creates(0, count)))
    rows.append((f"memory with {count} pods", f"{server.rss():.0f} MB"))
    rows.append(await pace(server, clients, "patches", patches(0, count, "a")))
    rows.append(await pace(server, clients, "gets", [message("GET", f"{PODS}/pod-{number:06}") for number in range(count)]))
    begun = time.perf_counter()
    size = len(await clients.ask(message("GET", PODS)))
    rows.append((f"list of {count} pods", f"{(time.perf_counter() - begun) * 1000:.0f} ms, {size / 1e6:.1f} MB"))
    for watchers in (1, 20):
        events = min(count, 2000)
        rows.append((f"events/s to {watchers} watchers", f"{await fan_out(clients, watchers, events):.0f}"))
    middle, high = await latency(clients, 500, 4)
    rows.append(("watch latency at 500/s, 3 watchers", f"p50 {middle:.2f} ms, p99 {high:.2f} ms"))
    rows.append(("memory at the end", f"{server.rss():.0f} MB"))
    clients.close()
    return rows


def main() -> None:
    """Run and print."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--pods", type=int, default=10_000, help="at least 2000")
    arguments = parser.parse_args()
    cores = sorted(os.sched_getaffinity(0))
    if len(cores) > 1:
        os.sched_setaffinity(0, {cores[0]})
    with tempfile.TemporaryDirectory() as directory:
        server = Server(Path(directory), cores[-1] if len(cores) > 1 else None)
        try:
            for name, value in uvloop.run(measure(server, arguments.pods)):
                print(f"{name:<38} {value}")
        finally:
            server.stop()


if __name__ == "__main__":
    main()
