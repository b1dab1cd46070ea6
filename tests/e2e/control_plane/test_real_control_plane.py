"""The real control plane starts fast, and the simulated nodes live through everything that happens to it."""

from __future__ import annotations

import asyncio
import json
import sys
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from pyroclast.api.types import NODES, PODS
from pyroclast.kube.credentials.config import load_config
from pyroclast.kube.http.client import Client
from tests.control_plane import build
from tests.control_plane.real import RealControlPlane, real_control_plane

pytestmark = pytest.mark.timeout(480)
PODS_AT_ONCE = 60


@pytest.fixture(autouse=True)
def needs_the_real_one(control_plane: str) -> None:
    if control_plane != "real":
        pytest.skip("it is about the real control plane: --control-plane=real")
    if build.missing(["etcd", "kube-apiserver", "kube-controller-manager"]):
        pytest.skip("the real control plane is not built: `make control-plane` needs Go")


@asynccontextmanager
async def nodes(plane: RealControlPlane, *options: str) -> AsyncIterator[asyncio.subprocess.Process]:
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "pyroclast_standalone.nodes", "--kubeconfig", str(plane.kubeconfig), *options
    )
    try:
        yield process
    finally:
        if process.returncode is None:
            process.terminate()
        await process.wait()


async def run_pods(client: Client, prefix: str, script: str, count: int = PODS_AT_ONCE) -> None:
    async def one(number: int) -> None:
        container = {"name": "c", "image": "busybox", "command": ["sh", "-c", script]}
        spec = {"nodeName": f"node-{number % 4}", "restartPolicy": "Never", "containers": [container]}
        await client.create(PODS, {"metadata": {"name": f"{prefix}-{number}"}, "spec": spec}, namespace="default")

    await asyncio.gather(*map(one, range(count)))


async def until(client: Client, phase: str, count: int, seconds: float = 60.0) -> list[dict]:
    async with asyncio.timeout(seconds):
        while True:
            pods, _ = await client.list(PODS, "default")
            if sum(pod["status"].get("phase") == phase for pod in pods) >= count:
                return pods
            await asyncio.sleep(0.2)


def status_writes(audit_log: Path) -> Counter[str]:
    """How often the status of each pod was written."""
    writes: Counter[str] = Counter()
    for line in audit_log.read_text().splitlines():
        entry = json.loads(line)
        target = entry.get("objectRef", {})
        if (target.get("resource"), target.get("subresource")) == ("pods", "status") and entry["responseStatus"]["code"] == 200:
            writes[target["name"]] += 1
    return writes


async def test_real_control_plane_starts_and_serves_its_version(tmp_path: Path) -> None:
    async with real_control_plane(tmp_path, fsync=False) as plane:
        status, body = await plane.get("/version")
        assert (status, json.loads(body)["gitVersion"]) == (200, "v1.36.1")


async def test_simulated_nodes_complete_all_pods_over_api_server_and_etcd_restarts(tmp_path: Path) -> None:
    async with (
        real_control_plane(tmp_path, fsync=False) as plane,
        Client(load_config(str(plane.kubeconfig))) as client,
        nodes(plane, "--nodes", "4"),
    ):
        await run_pods(client, "killed-server", "sleep 4")
        await until(client, "Running", PODS_AT_ONCE)
        await plane.apiserver.restart(kill=True, down_seconds=5)
        await until(client, "Succeeded", PODS_AT_ONCE)
        await run_pods(client, "compacted", "sleep 3")
        await plane.compact()
        await plane.apiserver.restart()
        await until(client, "Succeeded", 2 * PODS_AT_ONCE)
        await run_pods(client, "killed-store", "sleep 3")
        await plane.etcd.restart(kill=True)
        pods = await until(client, "Succeeded", 3 * PODS_AT_ONCE)
        assert all(status["restartCount"] == 0 for pod in pods for status in pod["status"]["containerStatuses"])
        # one when it starts, one when it ends; one more where an answer was lost on the way
        assert max(status_writes(plane.audit_log).values()) <= 3


async def test_restarted_nodes_process_completes_all_pods_without_container_restarts(tmp_path: Path) -> None:
    async with real_control_plane(tmp_path, fsync=False) as plane, Client(load_config(str(plane.kubeconfig))) as client:
        async with nodes(plane, "--nodes", "4") as first:
            await run_pods(client, "p", "sleep 3")
            await until(client, "Running", PODS_AT_ONCE // 2)
            first.kill()
            await first.wait()
        await asyncio.sleep(3)
        async with nodes(plane, "--nodes", "4"):
            pods = await until(client, "Succeeded", PODS_AT_ONCE)
        assert all(status["restartCount"] == 0 for pod in pods for status in pod["status"]["containerStatuses"])
        assert max(status_writes(plane.audit_log).values()) <= 3
        assert len((await client.list(NODES))[0]) == 4
