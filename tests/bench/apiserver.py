"""How fast the embedded API server is: `python -m tests.bench.apiserver` prints a table.

Server and client run in processes of their own, each on one core where there are two. The client speaks raw HTTP over TLS with
kept connections.
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
from pathlib import Path

import aiohttp
import orjson

POD = {
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


def session(server: Server) -> aiohttp.ClientSession:
    """A client with the administrator's certificate."""
    config = orjson.loads(server.kubeconfig.read_bytes())
    user, cluster = config["users"][0]["user"], config["clusters"][0]["cluster"]
    context = ssl.create_default_context(cafile=cluster["certificate-authority"])
    context.load_cert_chain(user["client-certificate"], user["client-key"])
    connector = aiohttp.TCPConnector(ssl=context, limit=0)
    return aiohttp.ClientSession(server.url, connector=connector, read_bufsize=2**22)


async def many(client: aiohttp.ClientSession, requests: list[tuple[str, str, bytes, str]], in_flight: int) -> float:
    """Send all requests, `in_flight` at a time; requests per second."""
    waiting = iter(requests)

    async def worker() -> None:
        for method, path, body, content_type in waiting:
            async with client.request(method, path, data=body, headers={"Content-Type": content_type}) as response:
                content = await response.read()
                assert response.status < 300, content

    begun = time.perf_counter()
    await asyncio.gather(*(worker() for _ in range(in_flight)))
    return len(requests) / (time.perf_counter() - begun)


PODS = "/api/v1/namespaces/default/pods"
MERGE = "application/merge-patch+json"


def creates(first: int, count: int) -> list[tuple[str, str, bytes, str]]:
    """Requests that make pods."""
    made = []
    for number in range(first, first + count):
        body = {**POD, "metadata": {**POD["metadata"], "name": f"pod-{number:06}"}}
        made.append(("POST", PODS, orjson.dumps(body), "application/json"))
    return made


def patches(first: int, count: int, value: str) -> list[tuple[str, str, bytes, str]]:
    """Requests that change a label."""
    body = orjson.dumps({"metadata": {"labels": {"bench": value}}})
    return [("PATCH", f"{PODS}/pod-{number:06}", body, MERGE) for number in range(first, first + count)]


async def watch(client: aiohttp.ClientSession, revision: str, count: int, seen: list[float]) -> None:
    """Read `count` events and note when each came."""
    async with client.get(PODS, params={"watch": "true", "resourceVersion": revision}) as response:
        while len(seen) < count:
            line = await response.content.readline()
            now = time.perf_counter()
            if not line:
                return
            seen.append(now)


async def revision_of(client: aiohttp.ClientSession) -> str:
    """The current revision."""
    async with client.get(PODS, params={"limit": "1"}) as response:
        return str(orjson.loads(await response.read())["metadata"]["resourceVersion"])


async def fan_out(client: aiohttp.ClientSession, watchers: int, count: int) -> float:
    """Events per second that all watchers together receive."""
    revision = await revision_of(client)
    begun = time.perf_counter()
    seen: list[list[float]] = [[] for _ in range(watchers)]
    readers = [asyncio.ensure_future(watch(client, revision, count, each)) for each in seen]
    await asyncio.sleep(0.2)
    begun = time.perf_counter()
    await many(client, patches(0, count, f"fan-{watchers}"), 16)
    await asyncio.gather(*readers)
    return watchers * count / (max(each[-1] for each in seen) - begun)


async def latency(client: aiohttp.ClientSession, rate: int, seconds: int) -> tuple[float, float]:
    """Milliseconds (p50, p99) from sending a write to reading its event, at `rate` writes per second with three watchers."""
    revision = await revision_of(client)
    count = rate * seconds
    seen: list[list[float]] = [[], [], []]
    readers = [asyncio.ensure_future(watch(client, revision, count, each)) for each in seen]
    await asyncio.sleep(0.2)
    sent: list[float] = []
    tasks = []
    begun = time.perf_counter()
    for number in range(count):
        due = begun + number / rate
        while (left := due - time.perf_counter()) > 0:
            await asyncio.sleep(left)
        sent.append(time.perf_counter())
        tasks.append(asyncio.ensure_future(many(client, patches(number, 1, f"lat-{rate}"), 1)))
    await asyncio.gather(*tasks, *readers)
    delays = sorted((arrived - left) * 1000 for each in seen for left, arrived in zip(sent, each, strict=True))
    return statistics.median(delays), delays[int(len(delays) * 0.99)]


async def measure(server: Server, count: int) -> list[tuple[str, str]]:
    """All figures."""
    rows = [("memory after start", f"{server.rss():.0f} MB")]
    async with session(server) as client:
        await many(client, creates(900_000, 300), 32)
        cpu = server.cpu()
        rate = await many(client, creates(0, count), 32)
        rows.append(("creates/s", f"{rate:.0f}  ({(server.cpu() - cpu) / count * 1e6:.0f} µs CPU each)"))
        rows.append((f"memory with {count} pods", f"{server.rss():.0f} MB"))
        cpu = server.cpu()
        rate = await many(client, patches(0, count, "a"), 32)
        rows.append(("patches/s", f"{rate:.0f}  ({(server.cpu() - cpu) / count * 1e6:.0f} µs CPU each)"))
        cpu = server.cpu()
        rate = await many(client, [("GET", f"{PODS}/pod-{n:06}", b"", "application/json") for n in range(count)], 32)
        rows.append(("gets/s", f"{rate:.0f}  ({(server.cpu() - cpu) / count * 1e6:.0f} µs CPU each)"))
        begun = time.perf_counter()
        async with client.get(PODS) as response:
            size = len(await response.read())
        rows.append((f"list of {count} pods", f"{(time.perf_counter() - begun) * 1000:.0f} ms, {size / 1e6:.1f} MB"))
        for watchers in (1, 20):
            events = min(count, 2000)
            rows.append((f"events/s to {watchers} watchers", f"{await fan_out(client, watchers, events):.0f}"))
        middle, high = await latency(client, 500, 4)
        rows.append(("watch latency at 500/s, 3 watchers", f"p50 {middle:.2f} ms, p99 {high:.2f} ms"))
        rows.append(("memory at the end", f"{server.rss():.0f} MB"))
    return rows


def main() -> None:
    """Run and print."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--pods", type=int, default=10_000)
    arguments = parser.parse_args()
    cores = sorted(os.sched_getaffinity(0))
    if len(cores) > 1:
        os.sched_setaffinity(0, {cores[0]})
    with tempfile.TemporaryDirectory() as directory:
        server = Server(Path(directory), cores[-1] if len(cores) > 1 else None)
        try:
            for name, value in asyncio.run(measure(server, arguments.pods)):
                print(f"{name:<38} {value}")
        finally:
            server.stop()


if __name__ == "__main__":
    main()
