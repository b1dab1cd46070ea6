"""Readiness and SIGTERM: no calls before webhooks are served; what was asked is answered, new reviews during the delay alone."""

from __future__ import annotations

import asyncio
import contextlib
import signal
import sys
from asyncio.subprocess import PIPE, Process
from collections.abc import AsyncIterator
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

import aiohttp
import pytest

from pyroclast_admission.certificates.issue import carry_out
from pyroclast_admission.certificates.plan import Step
from pyroclast_standalone.processes import free_port
from tests.bench.admission_server import policy
from tests.unit.admission.clients import asking, review
from tests.unit.kube.fault_server import FaultServer, Got, answer, hang
from tests.unit.rules.builders import job

LISTS = (
    "/apis/scheduling.volcano.sh/v1beta1/queues",
    "/apis/flow.volcano.sh/v1alpha1/jobtemplates",
    "/api/v1/namespaces",
    "/apis/scheduling.k8s.io/v1/priorityclasses",
    "/api/v1/resourcequotas",
)
QUEUE = {"metadata": {"name": "somewhere"}, "spec": {"parent": "root"}, "status": {"state": "Open"}}


@pytest.fixture
async def server() -> AsyncIterator[FaultServer]:
    async with FaultServer() as server:
        yield server


@dataclass(frozen=True, slots=True)
class Serving:
    """A program that serves; `ask` asks it about a Job, on a session of the caller."""

    process: Process
    port: int
    bundle: bytes

    async def ask(self, session: aiohttp.ClientSession) -> aiohttp.ClientResponse:
        url = f"https://localhost:{self.port}/jobs/validate"
        async with session.post(url, json=review("/jobs/validate", object=job(queue="somewhere"))) as response:
            assert (await response.json())["response"]["allowed"]
            return response


@contextlib.asynccontextmanager
async def serving(server: FaultServer, folder: Path, *flags: str) -> AsyncIterator[Serving]:
    """The admission service at work; the queue of the Job is asked of `server` at each review."""
    material = carry_out(Step.START_OVER, None, policy(), datetime.now(UTC))
    (folder / "crt").write_bytes(material.certificate)
    (folder / "key").write_bytes(material.key)
    server.on("GET /version", answer(200, {"minor": "36"}))
    for path in LISTS:
        server.on(f"GET {path}", answer(200, {"metadata": {"resourceVersion": "1"}, "items": []})).on(f"WATCH {path}", hang)
    port = free_port()
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "pyroclast_admission", f"--master={server.url}", f"--port={port}", *flags),
        *(f"--tls-cert-file={folder}/crt", f"--tls-private-key-file={folder}/key", "--webhook-url=https://localhost"),
        "--enabled-admission=/jobs/validate",
        stderr=PIPE,
    )
    assert process.stderr is not None
    async with asyncio.timeout(60):
        while b"webhooks.serving" not in await process.stderr.readline():
            pass
        yield Serving(process, port, material.bundle)
        await process.communicate()
        assert process.returncode == 0


async def takes_connections(port: int) -> bool:
    try:
        _, writer = await asyncio.open_connection("127.0.0.1", port)
    except ConnectionRefusedError:
        return False
    writer.close()
    return True


@pytest.mark.parametrize("uvloop", ["true", "false"])
async def test_sigterm_lets_reviews_in_flight_finish_and_refuses_new_connections(
    server: FaultServer, tmp_path: Path, uvloop: str
) -> None:
    told = asyncio.Event()

    async def slow(got: Got) -> None:
        await told.wait()
        await answer(200, QUEUE)(got)

    server.on(f"GET {LISTS[0]}/somewhere", slow)
    async with serving(server, tmp_path, f"--uvloop={uvloop}") as it, asking(it.bundle) as session, asking(it.bundle) as other:
        asked = [asyncio.ensure_future(it.ask(session)) for _ in range(5)]
        while len(server.seen(f"GET {LISTS[0]}/somewhere")) < 5:
            await asyncio.sleep(0.02)
        it.process.send_signal(signal.SIGTERM)
        async with asyncio.timeout(60):
            while await takes_connections(it.port):
                await asyncio.sleep(0.02)
        with pytest.raises(aiohttp.ClientConnectorError):
            await it.ask(other)
        told.set()
        await asyncio.gather(*asked)


async def test_each_response_closes_its_connection_during_the_shutdown_delay(server: FaultServer, tmp_path: Path) -> None:
    server.on(f"GET {LISTS[0]}/somewhere", answer(200, QUEUE))
    async with (
        serving(server, tmp_path, "--shutdown-delay-duration=2s") as it,
        asking(it.bundle) as kept,
        asking(it.bundle) as new,
    ):
        assert "Connection" not in (await it.ask(kept)).headers
        it.process.send_signal(signal.SIGTERM)
        assert it.process.stderr is not None
        while b"service.stopping" not in await it.process.stderr.readline():
            pass
        assert (await it.ask(kept)).headers["Connection"] == "close"
        assert (await it.ask(new)).headers["Connection"] == "close"


async def test_readiness_returns_500_until_the_webhooks_are_served(tmp_path: Path) -> None:
    """Also where certificates and caches are there at once, as after a restart; the step before serving takes its time here."""
    material = carry_out(Step.START_OVER, None, policy(), datetime.now(UTC))
    (tmp_path / "crt").write_bytes(material.certificate)
    (tmp_path / "key").write_bytes(material.key)
    asked, go_on = asyncio.Event(), asyncio.Event()

    async def slow(got: Got) -> None:
        if len(server.seen("GET /version")) > 1:  # the first only finds out whether anybody answers
            asked.set()
            await go_on.wait()
        await answer(200, {"minor": "36"})(got)

    async with FaultServer() as server:
        for path in LISTS:
            server.on(f"GET {path}", answer(200, {"metadata": {"resourceVersion": "1"}, "items": []})).on(f"WATCH {path}", hang)
        server.on("GET /version", slow)
        port, health = free_port(), free_port()
        process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-m", "pyroclast_admission", f"--master={server.url}", f"--port={port}"),
            *(f"--tls-cert-file={tmp_path}/crt", f"--tls-private-key-file={tmp_path}/key", "--webhook-url=https://localhost"),
            *("--enabled-admission=/jobs/validate", "--enable-healthz=true", f"--healthz-address=127.0.0.1:{health}"),
            stderr=PIPE,
        )
        assert process.stderr is not None
        async with aiohttp.ClientSession() as session, asyncio.timeout(60):

            async def ready() -> int:
                async with session.get(f"http://127.0.0.1:{health}/readyz") as response:
                    return response.status

            await asked.wait()
            assert {await ready() for _ in range(20)} == {500}, "and all lists were answered long ago"
            go_on.set()
            while b"webhooks.serving" not in await process.stderr.readline():
                pass
            while await ready() != 200:
                await asyncio.sleep(0.02)
            _, writer = await asyncio.open_connection("127.0.0.1", port)
            writer.close()
            process.terminate()
            await process.communicate()
        assert process.returncode == 0
