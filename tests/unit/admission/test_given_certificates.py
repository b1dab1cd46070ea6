"""Certificates that somebody else writes: served, put into the webhook configurations, and followed when they change."""

from __future__ import annotations

import asyncio
import base64
import ssl
import sys
from asyncio.subprocess import DEVNULL
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path

import aiohttp
import yaml

from pyroclast.api.types import MUTATING_WEBHOOKS, VALIDATING_WEBHOOKS
from pyroclast.kube.credentials.config import load_config
from pyroclast.kube.http.client import Client
from pyroclast_standalone import installation
from pyroclast_standalone.processes import free_port
from tests.e2e.support.containers import kubelet_files
from tests.unit.chart import authorities, render
from tests.unit.running import running_server

HOST = "pyroclast-admission-service.pyroclast-system.svc"
OBJECTS = list(yaml.safe_load_all((render.ROOT / "certs" / "cert-manager.yaml").read_text()))


async def until(holds: Callable[[], Awaitable[bool]]) -> None:
    async with asyncio.timeout(60):
        while not await holds():
            await asyncio.sleep(0.1)


async def test_a_cert_manager_secret_is_served_trusted_and_reloaded_when_renewed(tmp_path: Path) -> None:
    """Renewed by the same authority, then signed by another, then by an own CA; probes ask over TLS then, as the chart has it."""
    mounted = tmp_path / "certificates"
    first = authorities.certificate_of(OBJECTS, "pyroclast-admission", now=datetime.now(UTC) - timedelta(days=60))
    kubelet_files(mounted, first)
    port, health = free_port(), free_port()
    async with (
        running_server() as server,
        Client(load_config(str(server.kubeconfig))) as client,
        aiohttp.ClientSession() as session,
    ):
        await installation.apply(client, installation.objects(f"https://127.0.0.1:{port}", is_embedded=True))
        process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-m", "pyroclast_admission", f"--kubeconfig={server.kubeconfig}", f"--port={port}"),
            *(f"--tls-cert-file={mounted}/tls.crt", f"--tls-private-key-file={mounted}/tls.key"),
            *(f"--ca-cert-file={mounted}/ca.crt", f"--webhook-url=https://127.0.0.1:{port}"),
            *("--enable-healthz=true", f"--healthz-address=127.0.0.1:{health}"),
            stderr=DEVNULL,
        )

        async def is_ready() -> bool:
            try:
                async with session.get(f"https://127.0.0.1:{health}/readyz", ssl=False) as answer:
                    return answer.status == 200
            except aiohttp.ClientError:
                return False

        async def is_served(files: dict[str, bytes]) -> bool:
            """Whether this certificate is served for the Service's name, and its authority vouches for it."""
            trust = ssl.create_default_context(cadata=files["ca.crt"].decode())
            try:
                _, writer = await asyncio.open_connection("127.0.0.1", port, ssl=trust, server_hostname=HOST)
            except ssl.SSLCertVerificationError:
                return False
            served = authorities.read_der(writer.get_extra_info("ssl_object").getpeercert(binary_form=True))
            writer.close()
            return served.serial_number == authorities.read(files["tls.crt"]).serial_number

        async def is_trusted(files: dict[str, bytes]) -> bool:
            """Whether every webhook configuration names its authority, and nothing else."""
            lists = [await client.list(kind) for kind in (MUTATING_WEBHOOKS, VALIDATING_WEBHOOKS)]
            hooks = [hook for items, _ in lists for each in items for hook in each["webhooks"]]
            bundles = {base64.b64decode(hook["clientConfig"].get("caBundle", "")) for hook in hooks}
            return bundles == {files["ca.crt"]}

        await until(is_ready)
        assert await is_served(first)
        assert await is_trusted(first)
        renewed = authorities.certificate_of(OBJECTS, "pyroclast-admission", now=authorities.now(), authority=first)
        other = authorities.certificate_of(OBJECTS, "pyroclast-admission", now=authorities.now())
        assert renewed["ca.crt"] == first["ca.crt"] != other["ca.crt"]
        for files in (renewed, other, authorities.by_own_ca(tmp_path, other["ca.crt"])):
            kubelet_files(mounted, files)
            await until(lambda files=files: is_served(files))  # type: ignore[misc]
            await until(lambda files=files: is_trusted(files))  # type: ignore[misc]
        assert process.returncode is None
        process.terminate()
        assert await process.wait() == 0
