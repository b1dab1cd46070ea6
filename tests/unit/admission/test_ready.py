"""Readiness: nobody is sent to the webhooks before they are served."""

from __future__ import annotations

import asyncio
import sys
from asyncio.subprocess import PIPE
from datetime import UTC, datetime
from pathlib import Path

import aiohttp

from pyroclast_admission.certificates.issue import carry_out
from pyroclast_admission.certificates.plan import Step
from pyroclast_standalone.processes import free_port
from tests.bench.admission_server import policy
from tests.unit.admission.test_stopping import LISTS
from tests.unit.kube.fault_server import FaultServer, Got, answer, hang


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
