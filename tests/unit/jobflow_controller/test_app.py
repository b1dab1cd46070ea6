"""The jobflow controller as a process: it starts, leads, says that it is well, and gives its Lease back when it stops."""

from __future__ import annotations

import asyncio
import contextlib
import sys
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime

import aiohttp

from pyroclast.api.crds import custom_resource_definitions
from pyroclast.api.types import CRDS, JOB_FLOWS, JOB_TEMPLATES, JOBS, LEASES, NAMESPACES, Key
from pyroclast.kube.basics.errors import NotFound
from pyroclast.kube.credentials.config import load_config
from pyroclast.kube.events.recorder import EventRecorder
from pyroclast.kube.http.client import Client
from pyroclast.runtime.service import Service
from pyroclast_jobflow_controller.app import make_shared
from pyroclast_jobflow_controller.settings import JobFlowSettings
from pyroclast_standalone.processes import free_port
from tests.unit.kube.fault_server import FaultServer, answer
from tests.unit.running import running_server


async def test_jobflow_controller_uses_the_time_of_the_api_server() -> None:
    ahead = datetime.now(UTC) + timedelta(minutes=10)
    async with FaultServer() as server, server.client() as client:
        server.on(f"GET {JOB_FLOWS.path('')}", answer(200, {"items": []}, Date=format_datetime(ahead, usegmt=True)))
        settings = JobFlowSettings()
        shared = make_shared(Service("flows", settings), client, EventRecorder(client, "flows"), settings)
        await client.list(JOB_FLOWS)
        assert shared.now() - datetime.now(UTC).timestamp() > 590


KINDS = {kind.qualified for kind in (JOB_FLOWS, JOB_TEMPLATES, JOBS)}
LEASE = Key("volcano-system", "pyroclast-jobflow-controller")


async def ready(url):
    async with aiohttp.ClientSession() as session:
        while True:
            with contextlib.suppress(aiohttp.ClientConnectionError):
                async with session.get(url) as answer:
                    if answer.status == 200:
                        return
            await asyncio.sleep(0.1)


async def holder(client):
    with contextlib.suppress(NotFound):
        return (await client.get(LEASES, LEASE))["spec"].get("holderIdentity") or ""
    return ""


async def test_jobflow_controller_gets_ready_acquires_its_lease_and_releases_it_on_stop():
    async with running_server() as server, Client(load_config(str(server.kubeconfig))) as client:
        for crd in custom_resource_definitions():
            if crd["metadata"]["name"] in KINDS:
                await client.create(CRDS, crd)
        await client.create(NAMESPACES, {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": LEASE.namespace}})
        address = f"127.0.0.1:{free_port()}"
        flags = (f"--kubeconfig={server.kubeconfig}", "--enable-healthz", f"--healthz-address={address}", "--log-level=error")
        process = await asyncio.create_subprocess_exec(sys.executable, "-m", "pyroclast_jobflow_controller", *flags)
        try:
            async with asyncio.timeout(60):
                await ready(f"http://{address}/readyz")
                while not await holder(client):
                    await asyncio.sleep(0.05)
                process.terminate()
                assert await process.wait() == 0
            assert await holder(client) == ""
        finally:
            if process.returncode is None:
                process.kill()
                await process.wait()
