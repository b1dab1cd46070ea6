from __future__ import annotations

import asyncio
import json
import signal
import socket
import sys
from asyncio.subprocess import PIPE, Process
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from pyroclast_standalone.processes import free_port
from tests.unit.kube.fault_server import FaultServer, Got, Step, Watch, answer

Start = Callable[..., Any]


@pytest.fixture
async def start() -> AsyncIterator[Start]:
    started: list[Process] = []

    async def start(*flags: str) -> Process:
        process = await asyncio.create_subprocess_exec(
            sys.executable, str(Path(__file__).with_name("program.py")), *flags, stdout=PIPE, stderr=PIPE
        )
        started.append(process)
        return process

    yield start
    for process in started:
        if process.returncode is None:
            process.kill()
        await process.communicate()


async def finish(process: Process) -> tuple[int, list[str], list[str]]:
    async with asyncio.timeout(60):
        out, err = await process.communicate()
    assert process.returncode is not None
    return process.returncode, out.decode().splitlines(), err.decode().splitlines()


def events(lines: list[str]) -> list[dict[str, Any]]:
    return [json.loads(line) for line in lines]


async def get(url: str) -> tuple[int, str]:
    async with asyncio.timeout(60):
        while True:
            try:
                async with aiohttp.ClientSession() as session, session.get(url) as response:
                    return response.status, await response.text()
            except aiohttp.ClientConnectorError:
                await asyncio.sleep(0.05)


class Held:
    """A step that is taken once it is released."""

    def __init__(self, step: Step) -> None:
        self._step = step
        self._released = asyncio.Event()
        self.release = self._released.set

    async def __call__(self, got: Got) -> None:
        await self._released.wait()
        await self._step(got)


async def until_ready(health: str) -> None:
    async with asyncio.timeout(60):
        while await get(f"http://{health}/readyz") != (200, "ok"):
            await asyncio.sleep(0.02)


@pytest.mark.parametrize(("number", "loop"), [(signal.SIGTERM, "true"), (signal.SIGINT, "false")])
async def test_a_signal_stops_the_tasks_of_the_service_in_reverse_order(start: Start, number: signal.Signals, loop: str) -> None:
    process = await start("--mode=wait", f"--uvloop={loop}")
    assert (await process.stdout.readline()).startswith(b"ready")
    process.send_signal(number)
    code, out, err = await finish(process)
    assert (code, out) == (0, ["stopped worker", "stopped cache"])
    assert events(err)[-1]["event"] == "service.stopping"


async def test_a_second_signal_ends_the_process_at_once(start: Start) -> None:
    process = await start("--mode=stubborn")
    await process.stdout.readline()
    process.send_signal(signal.SIGTERM)
    while b"service.stopping" not in await process.stderr.readline():
        assert process.returncode is None
    process.send_signal(signal.SIGTERM)
    assert (await finish(process))[0] == 1


async def test_stopping_ends_after_graceful_shutdown_time_and_logs_stuck_tasks(start: Start) -> None:
    process = await start("--mode=stubborn", "--graceful-shutdown-time=300ms")
    await process.stdout.readline()
    process.send_signal(signal.SIGTERM)
    async with asyncio.timeout(25):  # less than is allowed by default
        _, _, err = await finish(process)
    assert any(event["event"] == "service.stuck" and event["tasks"] == ["worker"] for event in events(err))


async def test_the_process_exits_with_0_when_main_returns(start: Start) -> None:
    code, out, _ = await finish(await start("--mode=returns"))
    assert (code, out) == (0, ["done"])


@pytest.mark.parametrize(
    ("mode", "error"),
    [
        ("dies", "worker died: ZeroDivisionError('by the test')"),
        ("ends", "worker ended"),
        ("raises", "main died: RuntimeError('main failed')"),
    ],
)
async def test_a_dead_task_ends_the_process_with_status_1_and_a_critical_log_line(start: Start, mode: str, error: str) -> None:
    code, out, err = await finish(await start(f"--mode={mode}"))
    assert code == 1
    last = events(err)[-1]
    assert (last["event"], last["level"], last["error"]) == ("service.task_died", "critical", error)
    if mode != "raises":
        assert "stopped cache" in out
    assert ("exception" in last) == (mode != "ends")


async def test_a_lost_lease_is_logged_without_a_traceback_and_exits_with_1(start: Start) -> None:
    code, _, err = await finish(await start("--mode=loses"))
    last = events(err)[-1]
    assert (code, last["event"], last["error"]) == (1, "service.lease_lost", "lease ns/lock: taken over by other")
    assert "exception" not in last


async def test_an_unusable_kubeconfig_prints_one_line_and_exits_with_2(start: Start, tmp_path: Path) -> None:
    file = tmp_path / "kubeconfig"
    code, _, err = await finish(await start("--mode=watch", f"--kubeconfig={file}"))
    assert (code, err) == (2, [f"program: kubeconfig {file}: {file}: No such file or directory"])


async def test_a_port_in_use_prints_one_line_and_exits_with_1(start: Start) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        address = f"127.0.0.1:{taken.getsockname()[1]}"
        code, _, err = await finish(await start("--enable-metrics", f"--listen-address={address}"))
    assert code == 1
    assert len(err) == 1
    assert err[0].startswith(f"program: --listen-address: cannot listen on {address}: ")


async def test_unusable_tls_files_print_one_line_and_exit_with_2(start: Start, tmp_path: Path) -> None:
    files = [f"--{name}={tmp_path}/x" for name in ("tls-cert-file", "tls-private-key-file", "ca-cert-file")]
    code, _, err = await finish(await start("--enable-healthz", "--healthz-address=127.0.0.1:0", *files))
    assert (code, len(err)) == (2, 1)
    assert err[0].startswith("program: TLS files ")


async def test_the_service_is_alive_but_not_ready_until_the_api_server_is_reachable(start: Start) -> None:
    server = FaultServer()
    server.port = free_port()
    health = f"127.0.0.1:{free_port()}"
    process = await start(
        "--mode=watch",
        f"--master={server.url}",
        "--enable-healthz",
        "--enable-metrics",
        f"--healthz-address={health}",
        f"--listen-address={health}",
    )
    status, text = await get(f"http://{health}/readyz")
    assert (status, text) == (
        500,
        (
            "[+]ping ok\n[-]started failed: what it needs is not all there yet\n[+]stopping ok\n"
            f"[-]api-server failed: {server.url} does not answer\nreadyz check failed\n"
        ),
    )
    assert (await get(f"http://{health}/livez"))[0] == 200
    server.on("GET /version", answer(200, {}))
    server.on("GET /api/v1/pods", answer(200, {"metadata": {"resourceVersion": "1"}, "items": []}))
    server.on("WATCH /api/v1/pods", Watch())
    async with server:
        async with asyncio.timeout(60):
            assert await process.stdout.readline() == b"synced\n"
        assert (await get(f"http://{health}/readyz")) == (200, "ok")
        status, text = await get(f"http://{health}/metrics")
        assert 'rest_client_requests_total{code="200",method="list",resource="pods"} 1.0' in text
        process.send_signal(signal.SIGTERM)
        code, _, err = await finish(process)
    assert code == 0
    assert [event["event"] for event in events(err)] == ["api_server.away", "api_server.back", "service.stopping"]


async def test_readiness_fails_while_a_list_is_pending_and_succeeds_afterwards(start: Start) -> None:
    listed = Held(answer(200, {"metadata": {"resourceVersion": "1"}, "items": []}))
    async with FaultServer() as server:
        server.on("GET /version", answer(200, {}))
        server.on("GET /api/v1/pods", listed)
        server.on("WATCH /api/v1/pods", Watch())
        health = f"127.0.0.1:{free_port()}"
        await start("--mode=watch", f"--master={server.url}", "--enable-healthz", f"--healthz-address={health}")
        while not server.seen("GET /api/v1/pods"):
            await asyncio.sleep(0.02)
        status, text = await get(f"http://{health}/readyz")
        assert status == 500
        assert "[-]watch-pods failed: pods are not listed yet" in text
        assert (await get(f"http://{health}/healthz?verbose"))[1] == "[+]ping ok\n[+]watch-pods ok\nhealthz check passed\n"
        listed.release()
        await until_ready(health)


async def test_readiness_fails_while_startup_preparation_runs_and_succeeds_afterwards(start: Start) -> None:
    """As the queue `default`, which a Job needs that comes as soon as the pods of an installation are ready."""
    prepared = Held(answer(200, {}))
    async with FaultServer() as server:
        server.on("GET /version", answer(200, {}))
        server.on("GET /api/v1/namespaces/ns/pods/p", prepared)
        health = f"127.0.0.1:{free_port()}"
        process = await start("--mode=prepares", f"--master={server.url}", "--enable-healthz", f"--healthz-address={health}")
        assert await process.stdout.readline() == b"prepares\n"
        status, text = await get(f"http://{health}/readyz")
        assert (status, text.splitlines()[1]) == (500, "[-]started failed: what it needs is not all there yet")
        assert (await get(f"http://{health}/livez"))[0] == 200
        prepared.release()
        await until_ready(health)


async def test_an_optional_informer_does_not_delay_readiness_and_has_a_liveness_check(start: Start) -> None:
    async with FaultServer() as server:
        server.on("GET /version", answer(200, {}))
        server.on("GET /api/v1/pods", answer(404, {"reason": "NotFound", "message": "not served"}))
        health = f"127.0.0.1:{free_port()}"
        process = await start("--mode=asks", f"--master={server.url}", "--enable-healthz", f"--healthz-address={health}")
        assert await process.stdout.readline() == b"synced\n"
        assert await get(f"http://{health}/readyz") == (200, "ok")
        assert "[+]watch-pods ok" in (await get(f"http://{health}/livez?verbose"))[1].splitlines()


LEFT_OUT = "leaves this object out: it is nested too deeply to be read"
WITHOUT = "reads this object without these fields: spec.hostNetwork: Expected `bool`, got `array`"


@pytest.mark.parametrize(
    ("mode", "more", "action"),
    [
        ("watch", b'"more":' + b"[" * 3000 + b"]" * 3000, LEFT_OUT),
        ("asks", b'"more":' + b"[" * 3000 + b"]" * 3000, LEFT_OUT),
        ("watch", b'"spec":{"hostNetwork":[],"containers":null}', WITHOUT),
    ],
    ids=["left out", "left out before the start", "read in part"],
)
async def test_an_unreadable_object_is_reported_by_an_event_and_does_not_stop_the_service(
    start: Start, mode: str, more: bytes, action: str
) -> None:
    bad = b'{"metadata":{"name":"bad","namespace":"ns","uid":"u","resourceVersion":"1"},%s}' % more
    async with FaultServer() as server:
        server.on("GET /version", answer(200, {}))
        server.on("GET /api/v1/pods", answer(200, b'{"metadata":{"resourceVersion":"1"},"items":[%s]}' % bad))
        server.on("WATCH /api/v1/pods", Watch())
        server.on("POST /api/v1/namespaces/ns/events", answer(201, {}))
        process = await start(f"--mode={mode}", f"--master={server.url}")
        async with asyncio.timeout(60):
            assert await process.stdout.readline() == b"synced\n"
            while not server.seen("POST /api/v1/namespaces/ns/events"):
                await asyncio.sleep(0.02)
        process.send_signal(signal.SIGTERM)
        assert (await finish(process))[0] == 0
        body = server.seen("POST /api/v1/namespaces/ns/events")[0].json
    assert (body["type"], body["reason"]) == ("Warning", "Undecodable")
    assert body["message"] == f"program {action}"
    assert body["involvedObject"] == {"apiVersion": "v1", "kind": "Pod", "namespace": "ns", "name": "bad", "uid": "u"}
