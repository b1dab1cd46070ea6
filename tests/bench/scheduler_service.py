"""`python -m tests.bench.scheduler_service [--running N] [--jobs J] [--pods P]`: the scheduler before a server without logic.

Told are the time from the start of the process to the first decision, its memory, the pace of binds, its CPU time, the longest
time for which its event loop was held, and the longest time between two renewals of its Lease. 5,000 nodes; requests are not
limited. The machine's pace stands beside it: what the fixed loop of `scheduler_table` took before and after.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import json
import multiprocessing
import re
import statistics
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections import defaultdict
from collections.abc import Callable, Iterator
from multiprocessing.sharedctypes import Synchronized
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import msgspec
import uvloop

from .scheduler_table import loop
from .substrate import pod
from .usage import cpu_seconds, memory

NODES = 5000
_SINCE = "2026-01-01T10:00:00Z"


class Board(msgspec.Struct):
    """What the bench and the server tell each other; times of `time.monotonic`."""

    port: Synchronized[int]
    jobs: Synchronized[int]  # come when this is set
    pods: Synchronized[int]  # of each of them
    bound: Synchronized[int]
    first: Synchronized[float]  # when the first bind came
    last: Synchronized[float]
    is_leading: Synchronized[int]  # the Lease is held
    renewal: Synchronized[float]  # the longest time between two writes of a Lease


def serve(board: Board, running: int) -> None:
    """Serve until ended; `running` pods run in Jobs of 20."""
    uvloop.run(_Server(board, running).run())


def _template(*, is_running: bool) -> str:
    body = pod(0)
    body["metadata"] |= {"name": "@JOB-@AT", "uid": "@JOB-@AT", "resourceVersion": "@VERSION"}
    body["metadata"]["annotations"]["scheduling.k8s.io/group-name"] = "@JOB"
    body["spec"]["nodeName"] = "@NODE"
    body["spec"]["containers"][0]["resources"] = {"requests": {"cpu": "100m", "memory": "64Mi"}}
    if not is_running:
        body["status"] = {"phase": "Pending"}
    return json.dumps(body)


_TEMPLATES = {is_running: _template(is_running=is_running) for is_running in (False, True)}


def _pod(job: str, at: int, version: int, node: str = "", *, is_running: bool = False) -> bytes:
    values = {"@JOB": job, "@AT": str(at), "@VERSION": str(version), "@NODE": node}
    return re.sub("@[A-Z]+", lambda found: values[found.group()], _TEMPLATES[is_running]).encode()


def _group(job: str, size: int, version: int, phase: str) -> bytes:
    meta = {"namespace": "team-a", "name": job, "uid": job, "creationTimestamp": _SINCE, "resourceVersion": str(version)}
    spec = {"minMember": size, "queue": "default", "minResources": {"cpu": f"{size * 100}m"}}
    return json.dumps(
        {"metadata": meta, "spec": spec, "status": {"phase": phase, "running": size if phase == "Running" else 0}}
    ).encode()


def _node(at: int) -> bytes:
    meta = {"name": f"node-{at}", "uid": f"n{at}", "resourceVersion": "1", "labels": {"kubernetes.io/hostname": f"node-{at}"}}
    has = {"cpu": "32", "memory": "256Gi", "pods": "110"}
    return json.dumps({"metadata": meta, "status": {"allocatable": has, "capacity": has}}).encode()


def _queue(name: str) -> bytes:
    return json.dumps({"metadata": {"name": name, "uid": name, "resourceVersion": "1"}, "spec": {"weight": 1}}).encode()


def _chunk(what: str, body: bytes) -> bytes:
    line = b'{"type":"%b","object":%b}\n' % (what.encode(), body)
    return b"%x\r\n%b\r\n" % (len(line), line)


class _Server:
    def __init__(self, board: Board, running: int) -> None:
        self.board = board
        self.running = running
        self.version = 10
        self.sizes: dict[str, int] = {}
        self.watchers: dict[str, list[asyncio.StreamWriter]] = defaultdict(list)
        self.said: dict[str, list[tuple[int, bytes]]] = defaultdict(list)
        self.kept: dict[str, dict[str, Any]] = {}
        self.renewed = 0.0

    async def run(self) -> None:
        server = await asyncio.start_server(self.handle, "127.0.0.1", 0, limit=1 << 22)
        self.board.port.value = server.sockets[0].getsockname()[1]
        while not self.board.jobs.value:
            await asyncio.sleep(0.01)
        for at in range(self.board.jobs.value):
            self.sizes[f"new-{at}"] = size = self.board.pods.value
            self.tell("podgroups", "ADDED", _group(f"new-{at}", size, self.next(), "Inqueue"))
            for i in range(size):
                self.tell("pods", "ADDED", _pod(f"new-{at}", i, self.next()))
            await asyncio.sleep(0)
        await server.serve_forever()

    async def list(self, writer: asyncio.StreamWriter, kind: str) -> None:
        """The objects that were there from the start, as a watch that begins with a list."""
        for body in self.all_of(kind):
            writer.write(_chunk("ADDED", body))
            await writer.drain()
        meta = {"resourceVersion": "10", "annotations": {"k8s.io/initial-events-end": "true"}}
        writer.write(_chunk("BOOKMARK", json.dumps({"metadata": meta}).encode()))
        await writer.drain()

    def next(self) -> int:
        self.version += 1
        return self.version

    def tell(self, kind: str, what: str, body: bytes) -> None:
        chunk = _chunk(what, body)
        self.said[kind].append((self.version, chunk))
        for writer in self.watchers[kind]:
            writer.write(chunk)

    def all_of(self, kind: str) -> Iterator[bytes]:
        match kind:
            case "nodes":
                yield from map(_node, range(NODES))
            case "pods":
                for at in range(self.running):
                    yield _pod(f"old-{at // 20}", at % 20, 1, f"node-{at % NODES}", is_running=True)
            case "podgroups":
                yield from (_group(f"old-{at}", 20, 1, "Running") for at in range(self.running // 20))
            case "queues":
                yield from map(_queue, ("root", "default"))

    async def handle(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(ConnectionError, asyncio.IncompleteReadError):
            while True:
                head = await reader.readuntil(b"\r\n\r\n")
                method, target, _ = head.split(b" ", 2)
                found = re.search(rb"(?i)content-length: (\d+)", head)
                body = await reader.readexactly(int(found.group(1)) if found else 0)
                url = urlsplit(target.decode())
                query = {name: values[0] for name, values in parse_qs(url.query).items()}
                if query.get("watch") == "true":
                    kind = url.path.rpartition("/")[2]
                    writer.write(b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\n")
                    if "sendInitialEvents" in query:
                        await self.list(writer, kind)
                        continue
                    for version, chunk in self.said[kind]:
                        if version > int(query["resourceVersion"]):
                            writer.write(chunk)
                    self.watchers[kind].append(writer)
                    await reader.read()
                    self.watchers[kind].remove(writer)
                    return
                status, answer = self.answer(method.decode(), url.path, query, body)
                writer.write(
                    b"HTTP/1.1 %d OK\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%b"
                    % (status, len(answer), answer)
                )
                await writer.drain()

    def answer(self, method: str, path: str, query: dict[str, str], body: bytes) -> tuple[int, bytes]:
        parts = path.strip("/").split("/")
        if path.endswith("/binding"):
            return self.bind(parts[-2], json.loads(body)["target"]["name"])
        if "leases" in parts:
            return self.lease(method, path, body)
        if "podgroups" in parts and method == "PATCH":
            return self.patch_group(parts[parts.index("podgroups") + 1], json.loads(body))
        if method == "GET" and "queues" in parts[:-1]:
            return 200, _queue(parts[-1])
        if method == "GET" and "limit" in query:
            return 200, b'{"metadata":{"resourceVersion":"10"},"items":[]}'
        if parts == ["version"]:
            return 200, b'{"major":"1","minor":"36","gitVersion":"v1.36.1"}'
        return (404, b'{"kind":"Status","code":404,"reason":"NotFound"}') if method == "GET" else (201, body or b"{}")

    def bind(self, name: str, node: str) -> tuple[int, bytes]:
        board = self.board
        board.last.value = time.monotonic()
        board.first.value = board.first.value or board.last.value
        board.bound.value += 1
        job, _, at = name.rpartition("-")
        self.tell("pods", "MODIFIED", _pod(job, int(at), self.next(), node))
        return 201, b'{"kind":"Status","status":"Success","code":201}'

    def patch_group(self, name: str, patch: dict[str, Any]) -> tuple[int, bytes]:
        body = json.loads(_group(name, self.sizes.get(name, 20), self.next(), "Inqueue"))
        body["status"] |= patch.get("status") or {}
        answer = json.dumps(body).encode()
        self.tell("podgroups", "MODIFIED", answer)
        return 200, answer

    def lease(self, method: str, path: str, body: bytes) -> tuple[int, bytes]:
        if method == "GET":
            found = self.kept.get(path)
            return (
                (404, b'{"kind":"Status","code":404,"reason":"NotFound"}') if found is None else (200, json.dumps(found).encode())
            )
        now, lease = time.monotonic(), json.loads(body)
        lease.setdefault("metadata", {})["resourceVersion"] = str(self.next())
        if self.renewed:
            self.board.renewal.value = max(self.board.renewal.value, now - self.renewed)
        self.renewed, self.board.is_leading.value = now, 1
        self.kept[path if method != "POST" else f"{path}/{lease['metadata']['name']}"] = lease
        return 200 if method != "POST" else 201, json.dumps(lease).encode()


_PATIENCE = 120.0
_HELD = "pyroclast_event_loop_held"
_METRICS = "http://127.0.0.1:18080/metrics"


def main() -> int:
    """Run one load."""
    parser = argparse.ArgumentParser(prog="python -m tests.bench.scheduler_service", description=__doc__)
    parser.add_argument("--running", type=int, default=0, help="pods that run already, in Jobs of 20")
    parser.add_argument("--jobs", type=int, default=20, help="Jobs that come")
    parser.add_argument("--pods", type=int, default=500, help="of each")
    options = parser.parse_args()
    board = Board(*(multiprocessing.Value(kind, 0) for kind in "iiiiddid"))
    server = multiprocessing.Process(target=serve, args=(board, options.running), daemon=True)
    server.start()
    _until(lambda: bool(board.port.value))
    with tempfile.TemporaryDirectory() as folder:
        config = Path(folder, "kubeconfig")
        cluster = f"{{name: c, cluster: {{server: 'http://127.0.0.1:{board.port.value}'}}}}"
        config.write_text(
            f"apiVersion: v1\nkind: Config\nclusters: [{cluster}]\nusers: [{{name: u, user: {{token: t}}}}]\n"
            "contexts: [{name: x, context: {cluster: c, user: u}}]\ncurrent-context: x\n"
        )
        began = time.monotonic()
        if options.running:  # they wait from the start, for the first decision
            board.pods.value, board.jobs.value = options.pods, options.jobs
        flags = ["--kube-api-qps", "0", "--enable-metrics", "--listen-address", "127.0.0.1:18080", "--log-level", "error"]
        scheduler = subprocess.Popen([sys.executable, "-m", "pyroclast_scheduler", "--kubeconfig", str(config), *flags])
        try:
            _watch(board, options, scheduler, began)
        finally:
            scheduler.terminate()
            scheduler.wait()
            server.terminate()
    return 0


def _watch(board: Board, options: argparse.Namespace, scheduler: subprocess.Popen[bytes], began: float) -> None:
    pid, count = scheduler.pid, options.jobs * options.pods
    _until(lambda: bool(board.is_leading.value), scheduler)
    held = _held_long(_metrics())
    if not options.running:
        time.sleep(2)  # the first cycles
        print(f"memory with {options.running:,} pods      {memory(pid):8.0f} MB")
        pace = _pace()
        cpu, began = cpu_seconds(pid), time.monotonic()
        board.pods.value, board.jobs.value = options.pods, options.jobs
    else:
        cpu = pace = 0.0
    _until(lambda: board.bound.value >= count, scheduler)
    print(f"to the first decision        {board.first.value - began:8.2f} s")
    if not options.running:
        seconds = board.last.value - began
        used = cpu_seconds(pid) - cpu
        print(f"{options.jobs} x {options.pods} pods bound in        {seconds:8.2f} s: {count / seconds:,.0f}/s seen")
        print(f"CPU of the scheduler         {used / count * 1e6:8.0f} µs a pod: {count / used:,.0f}/s on a core of its own")
        pace = (pace + _pace()) / 2
        print(f"a fixed loop took            {pace:8.2f} ms: a pod costs {used / count * 1e3 / pace:.3f} of it")
    time.sleep(3)
    print(f"memory with {options.running + count:,} pods {memory(pid):8.0f} MB")
    page = _metrics()
    held_most, late_most = (_figure(page, f"{name}_max_seconds") * 1000 for name in (_HELD, "pyroclast_event_loop_lag"))
    print(f"event loop held at most      {held_most:8.0f} ms, {late_most:.0f} with waiting for a core; the start included")
    print(f"event loop held over 50 ms   {_held_long(page) - held:8.0f} times since it leads")
    print(f"between two renewals at most {board.renewal.value:8.2f} s")


def _pace() -> float:
    return statistics.median(loop() for _ in range(9))


def _until(what: Callable[[], bool], scheduler: subprocess.Popen[bytes] | None = None) -> None:
    deadline = time.monotonic() + _PATIENCE
    while not what():
        if scheduler is not None and scheduler.poll() is not None:
            raise RuntimeError(f"the scheduler ended with {scheduler.returncode}")
        if time.monotonic() > deadline:
            raise TimeoutError(f"not within {_PATIENCE:.0f} s")
        time.sleep(0.02)


def _metrics() -> str:
    """The page of metrics, read at once: its figures belong together."""
    try:
        with urllib.request.urlopen(_METRICS, timeout=5) as answer:
            return str(answer.read().decode())
    except OSError:
        return ""


def _figure(page: str, name: str) -> float:
    found = re.search(rf"^{re.escape(name)} (\S+)", page, re.MULTILINE)
    return float(found.group(1)) if found else 0.0


def _held_long(page: str) -> float:
    """How often the event loop was held for more than 50 ms."""
    return _figure(page, f"{_HELD}_seconds_count") - _figure(page, f'{_HELD}_seconds_bucket{{le="0.05"}}')


if __name__ == "__main__":
    sys.exit(main())
