"""SIGTERM: reviews that were asked are answered, and nothing new is taken."""

from __future__ import annotations

import asyncio
import signal
import socket
import sys
from asyncio.subprocess import PIPE
from collections.abc import AsyncIterator
from datetime import UTC, datetime
from pathlib import Path

import aiohttp
import pytest

from pyroclast_admission.certificates.plan import Step
from pyroclast_admission.certificates.steps import carry_out
from tests.bench.admission_server import policy
from tests.unit.admission.clients import asking, review
from tests.unit.kube.fault_server import FaultServer, Got, answer, hang
from tests.unit.rules.builders import job

LISTS = (
    "/apis/scheduling.volcano.sh/v1beta1/queues",
    "/apis/flow.volcano.sh/v1alpha1/jobtemplates",
    "/api/v1/namespaces",
    "/apis/scheduling.k8s.io/v1/priorityclasses",
)
QUEUE = {"metadata": {"name": "somewhere"}, "spec": {"parent": "root"}, "status": {"state": "Open"}}


@pytest.fixture
async def server() -> AsyncIterator[FaultServer]:
    async with FaultServer() as server:
        yield server


@pytest.mark.parametrize("uvloop", ["true", "false"])
async def test_reviews_in_flight_are_answered_and_new_connections_refused(
    server: FaultServer, tmp_path: Path, uvloop: str
) -> None:
    material = carry_out(Step.START_OVER, None, policy(), datetime.now(UTC))
    (tmp_path / "crt").write_bytes(material.certificate)
    (tmp_path / "key").write_bytes(material.key)
    server.on("GET /version", answer(200, {"minor": "36"}))
    for path in LISTS:
        server.on(f"GET {path}", answer(200, {"metadata": {"resourceVersion": "1"}, "items": []})).on(f"WATCH {path}", hang)
    told = asyncio.Event()

    async def slow(got: Got) -> None:
        await told.wait()
        await answer(200, QUEUE)(got)

    server.on(f"GET {LISTS[0]}/somewhere", slow)
    with socket.socket() as sock:
        sock.bind(("127.0.0.1", 0))
        port = sock.getsockname()[1]
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "pyroclast_admission", f"--master={server.url}", f"--port={port}", f"--uvloop={uvloop}"),
        *(f"--tls-cert-file={tmp_path}/crt", f"--tls-private-key-file={tmp_path}/key", "--webhook-url=https://localhost"),
        "--enabled-admission=/jobs/validate",
        stderr=PIPE,
    )
    assert process.stderr is not None
    url = f"https://localhost:{port}/jobs/validate"
    body = review("/jobs/validate", object=job(queue="somewhere"))
    async with asking(material.bundle) as session, asking(material.bundle) as other, asyncio.timeout(30):

        async def ask() -> bool:
            async with session.post(url, json=body) as response:
                return (await response.json())["response"]["allowed"]

        while b"webhooks.serving" not in await process.stderr.readline():
            pass
        asked = [asyncio.ensure_future(ask()) for _ in range(5)]
        while len(server.seen(f"GET {LISTS[0]}/somewhere")) < 5:
            await asyncio.sleep(0.02)
        process.send_signal(signal.SIGTERM)
        await asyncio.sleep(0.5)
        with pytest.raises(aiohttp.ClientConnectorError):
            await other.post(url, json=body)
        told.set()
        assert await asyncio.gather(*asked) == [True] * 5
        await process.communicate()
        assert process.returncode == 0
