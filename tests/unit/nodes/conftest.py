"""The nodes service against the embedded API server, both in this process."""

import asyncio
import contextlib
from dataclasses import dataclass, field

import pytest

from pyroclast.api.types import PODS, Key
from pyroclast.kube.basics.errors import NotFound
from pyroclast.kube.credentials.config import load_config
from pyroclast.kube.http.client import Client
from pyroclast.runtime.service import Service
from pyroclast.runtime.settings import load
from pyroclast_standalone.nodes.service import NodesSettings, run
from tests.unit.running import running_server


@dataclass
class Cluster:
    server: object
    client: Client
    options: dict = field(default_factory=dict)
    nodes: asyncio.Task | None = None

    async def start(self, **options):
        """Start the nodes, or start them again."""
        self.options = options or self.options or {"nodes": "2"}
        flags = {name.replace("_", "-"): value for name, value in self.options.items()}
        settings = load(NodesSettings, {"kubeconfig": str(self.server.kubeconfig), "uvloop": "false", **flags})
        self.nodes = asyncio.ensure_future(Service("nodes", settings).run(run))

    async def stop(self):
        if self.nodes is not None:
            self.nodes.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await self.nodes
            self.nodes = None

    async def run_pod(self, name, script, *, node="node-0", metadata=None, container=None, **spec):
        """Create a pod that is bound to a node."""
        command = {} if script is None else {"command": ["sh", "-c", script]}
        body = {
            "metadata": {"name": name, **(metadata or {})},
            "spec": {
                "nodeName": node,
                "restartPolicy": "Never",
                "automountServiceAccountToken": False,
                "containers": [{"name": "c", "image": "busybox", **command, **(container or {})}],
                **spec,
            },
        }
        return await self.client.create(PODS, body, namespace="default")

    async def get(self, name):
        return await self.client.get(PODS, Key("default", name))

    async def until(self, name, condition, seconds=60.0):
        """The pod once `condition` holds for it; None once it is gone, if that is the condition."""
        async with asyncio.timeout(seconds):
            while True:
                try:
                    pod = await self.get(name)
                except NotFound:
                    if condition is None:
                        return None
                    raise
                if condition is not None and condition(pod):
                    return pod
                await asyncio.sleep(0.02)

    async def until_phase(self, name, *phases, seconds=60.0):
        return await self.until(name, lambda pod: pod["status"].get("phase") in phases, seconds)


@pytest.fixture
async def cluster():
    async with running_server() as server, Client(load_config(str(server.kubeconfig))) as client:
        cluster = Cluster(server, client)
        try:
            yield cluster
        finally:
            await cluster.stop()
