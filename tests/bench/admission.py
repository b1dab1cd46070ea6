"""How many reviews one core answers: `python -m tests.bench.admission`.

The server runs in a process of its own, over TLS; 32 connections ask without pause, then at half that pace. The load and
other programs share this machine, so besides the pace seen the CPU time of the server per review is told: its inverse is
what one core of its own would answer. The status is 1 when a target is missed.
"""

from __future__ import annotations

import asyncio
import base64
import os
import ssl
import subprocess
import sys
import time
from dataclasses import dataclass
from typing import Any, Self
from urllib.parse import urlsplit

import orjson
import uvloop

from .usage import cpu_seconds

CONNECTIONS = 32
RUN = "--run=00000000"
USER = "alice-00"
SECONDS = float(os.environ.get("PYROCLAST_BENCH_SECONDS", "4"))

MIN_PER_SECOND_1 = 4000
MIN_PER_SECOND_20 = 500
MAX_MICROSECONDS_PER_TASK = 150
MAX_P99_MILLISECONDS = 10.0
CHECKED_PER_SECOND, MAX_CHECKED_P99_MILLISECONDS = 1000.0, 5.0


def message(method: str, path: str, body: bytes = b"", content_type: str = "application/json") -> bytes:
    """A request, ready to be sent."""
    head = f"{method} {path} HTTP/1.1\r\nHost: localhost\r\nContent-Type: {content_type}\r\nContent-Length: {len(body)}\r\n\r\n"
    return head.encode() + body


class Connection:
    """A connection that costs next to nothing: a request is sent when the last answer has been read, and nothing is decoded."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader, self._writer = reader, writer

    @classmethod
    async def open(cls, url: str, tls: ssl.SSLContext) -> Self:
        """Connect to the server at `url`."""
        parts = urlsplit(url)
        return cls(*await asyncio.open_connection(parts.hostname, parts.port, ssl=tls, limit=1 << 22))

    async def ask(self, request: bytes) -> bytes:
        """The body of the answer.

        Raises:
            AssertionError: the answer is a failure; the text is its body.
        """
        self._writer.write(request)
        head = (await self._reader.readuntil(b"\r\n\r\n")).lower()
        length = int(head.partition(b"content-length: ")[2].partition(b"\r\n")[0])
        body = await self._reader.readexactly(length)
        if not head.startswith(b"http/1.1 2"):
            raise AssertionError(body.decode())
        return body

    def close(self) -> None:
        """Hang up."""
        self._writer.close()


def job(tasks: int) -> dict[str, Any]:
    """A Job as people write them: two containers per task, environment, volumes, probes, requests and limits."""
    container = {
        "name": "main",
        "image": "registry.example.org/team/train:v1.2.3",
        "command": ["python", "-m", "train"],
        "args": ["--epochs", "10", RUN],
        "env": [{"name": f"SETTING_{n}", "value": str(n)} for n in range(6)]
        + [{"name": "NODE", "valueFrom": {"fieldRef": {"fieldPath": "spec.nodeName"}}}],
        "ports": [{"name": "http", "containerPort": 8080}],
        "resources": {"requests": {"cpu": "2", "memory": "4Gi"}, "limits": {"cpu": "4", "memory": "8Gi", "nvidia.com/gpu": "1"}},
        "volumeMounts": [{"name": "data", "mountPath": "/data"}, {"name": "settings", "mountPath": "/etc/settings"}],
        "readinessProbe": {"httpGet": {"path": "/healthz", "port": "http"}, "periodSeconds": 5},
    }
    template = {
        "metadata": {"labels": {"app": "train", "team": "vision"}},
        "spec": {
            "restartPolicy": "OnFailure",
            "containers": [container, {"name": "logs", "image": "logs:1", "resources": {"requests": {"cpu": "100m"}}}],
            "volumes": [{"name": "data", "emptyDir": {}}, {"name": "settings", "configMap": {"name": "settings"}}],
            "nodeSelector": {"accelerator": "a100"},
            "tolerations": [{"key": "gpu", "operator": "Exists", "effect": "NoSchedule"}],
        },
    }
    task = {
        "replicas": 4,
        "minAvailable": 4,
        "maxRetry": 3,
        "template": template,
        "policies": [{"event": "TaskCompleted", "action": "CompleteJob"}],
    }
    return {
        "apiVersion": "batch.volcano.sh/v1alpha1",
        "kind": "Job",
        "metadata": {"name": "train", "namespace": "team-a", "uid": "a1", "labels": {"team": "vision"}},
        "spec": {
            "queue": "default",
            "schedulerName": "volcano",
            "minAvailable": 4 * tasks,
            "maxRetry": 3,
            "plugins": {"svc": [], "env": []},
            "policies": [{"event": "PodEvicted", "action": "RestartJob"}],
            "tasks": [{"name": f"task-{n}", **task} for n in range(tasks)],
        },
    }


def request(path: str, tasks: int) -> bytes:
    """An HTTP request with a review of such a Job."""
    kind = {"group": "batch.volcano.sh", "version": "v1alpha1", "kind": "Job"}
    resource = {"group": "batch.volcano.sh", "version": "v1alpha1", "resource": "jobs"}
    asked = {
        "uid": "705ab4f5-6393-11e8-b7cc-42010a800002",
        "kind": kind,
        "resource": resource,
        "requestKind": kind,
        "requestResource": resource,
        "name": "train",
        "namespace": "team-a",
        "operation": "CREATE",
        "userInfo": {"username": USER, "groups": ["system:authenticated"]},
        "object": job(tasks),
        "dryRun": False,
    }
    return message("POST", path, orjson.dumps({"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "request": asked}))


@dataclass(frozen=True, slots=True)
class Figures:
    """What came out of one load."""

    per_second: float
    cpu_microseconds: float
    p50_milliseconds: float
    p99_milliseconds: float

    @property
    def per_core(self) -> float:
        """Reviews per second of a core that does nothing else."""
        return 1e6 / self.cpu_microseconds


async def load(
    port: int, tls: ssl.SSLContext, pid: int, review: bytes, *, per_second: float = 0.0, fresh: bool = False
) -> Figures:
    """Ask for `SECONDS` on all connections, as fast as it goes or at a fixed pace; `fresh`: another Job and user each time."""
    latencies: list[float] = []
    connections = [await Connection.open(f"https://127.0.0.1:{port}", tls) for _ in range(CONNECTIONS)]
    cpu, start = cpu_seconds(pid), time.perf_counter()
    interval = CONNECTIONS / per_second if per_second else 0.0

    async def ask(number: int, connection: Connection) -> None:
        due = start + interval * number / CONNECTIONS
        while (now := time.perf_counter()) < start + SECONDS:
            if interval:
                await asyncio.sleep(max(0.0, due - now))
                due += interval
            run = b"--run=%08d" % len(latencies)
            user = b"alice-%02d" % (len(latencies) % 100)
            asked = review.replace(RUN.encode(), run).replace(USER.encode(), user) if fresh else review
            sent = time.perf_counter()
            body = await connection.ask(asked)
            latencies.append(time.perf_counter() - sent)
            if b'"allowed":true' not in body:
                raise AssertionError(body.decode())

    await asyncio.gather(*(ask(n, connection) for n, connection in enumerate(connections)))
    elapsed, used = time.perf_counter() - start, cpu_seconds(pid) - cpu
    for connection in connections:
        connection.close()
    latencies.sort()
    count = len(latencies)
    return Figures(count / elapsed, used / count * 1e6, latencies[count // 2] * 1e3, latencies[int(count * 0.99)] * 1e3)


async def measure(port: int, bundle: bytes, pid: int) -> bool:
    """Run all loads and print a line for each; whether the targets are met."""
    tls = ssl.create_default_context(cadata=bundle.decode())
    for tasks in (1, 20):
        _print("mutate", tasks, await load(port, tls, pid, request("/jobs/mutate", tasks)))
    validate = {}
    for tasks in (1, 20):
        validate[tasks] = await load(port, tls, pid, request("/jobs/validate", tasks))
        _print("validate", tasks, validate[tasks])
        _print("validate, each Job another", tasks, await load(port, tls, pid, request("/jobs/validate", tasks), fresh=True))
    validate_1, validate_20 = validate[1], validate[20]
    per_task = (validate_20.cpu_microseconds - validate_1.cpu_microseconds) / 19
    half = await load(port, tls, pid, request("/jobs/validate", 1), per_second=validate_1.per_second / 2)
    print(f"CPU per task: {per_task:.0f} us")
    print(f"at half the pace ({half.per_second:.0f}/s): p50 {half.p50_milliseconds:.1f} ms, p99 {half.p99_milliseconds:.1f} ms")
    checked = await load(port, tls, pid, request("/jobs/validate", 1), per_second=CHECKED_PER_SECOND, fresh=True)
    print(f"100 users at {checked.per_second:.0f}/s, each checked: p99 {checked.p99_milliseconds:.1f} ms")
    met = {
        f"a Job of 1 task: {MIN_PER_SECOND_1}/s per core": validate_1.per_core >= MIN_PER_SECOND_1,
        f"a Job of 20 tasks: {MIN_PER_SECOND_20}/s per core": validate_20.per_core >= MIN_PER_SECOND_20,
        f"CPU per task at most {MAX_MICROSECONDS_PER_TASK} us": per_task <= MAX_MICROSECONDS_PER_TASK,
        f"p99 below {MAX_P99_MILLISECONDS:.0f} ms at half the pace": half.p99_milliseconds < MAX_P99_MILLISECONDS,
        f"p99 below {MAX_CHECKED_P99_MILLISECONDS:.0f} ms for 100 users who are asked about": (
            checked.p99_milliseconds < MAX_CHECKED_P99_MILLISECONDS
        ),
    }
    for target, reached in met.items():
        print(f"{'met' if reached else 'MISSED'}: {target}")
    return all(met.values())


def _print(what: str, tasks: int, figures: Figures) -> None:
    print(
        f"{what}, {tasks} tasks: {figures.per_second:.0f}/s seen, {figures.cpu_microseconds:.0f} us CPU each "
        f"= {figures.per_core:.0f}/s per core, p50 {figures.p50_milliseconds:.1f} ms, p99 {figures.p99_milliseconds:.1f} ms"
    )


def main() -> int:
    """Start the server, measure, stop it; the exit status."""
    command = [sys.executable, "-m", "tests.bench.admission_server"]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as server:
        assert server.stdout is not None
        assert server.stdin is not None
        port, bundle = server.stdout.readline().split()
        try:
            return 0 if uvloop.run(measure(int(port), base64.b64decode(bundle), server.pid)) else 1
        finally:
            server.stdin.close()


if __name__ == "__main__":
    sys.exit(main())
