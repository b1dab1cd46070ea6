"""The scheduler as a service, in this process, on an embedded API server in memory."""

import asyncio
import contextlib
import time

import msgspec
import pytest

from pyroclast.api import crds, records
from pyroclast.api.keys import TRACEPARENT
from pyroclast.api.types import CRDS, NAMESPACES, NODES, POD_GROUPS, PODS, QUEUES, Key
from pyroclast.kube.credentials.config import load_config
from pyroclast.kube.http.client import Client, PatchKind
from pyroclast.runtime.service import Service
from pyroclast.runtime.settings import load
from pyroclast_scheduler.cache.cache import Cache
from pyroclast_scheduler.settings import SchedulerSettings
from pyroclast_scheduler.shell import gangs
from pyroclast_scheduler.wiring import main
from tests.unit.running import running_server

GROUP = "scheduling.k8s.io/group-name"


class Cluster:
    """A server, a client, and what tests do with them."""

    def __init__(self, server, client):
        self.server = server
        self.client = client

    async def node(self, name, cpu="4"):
        resources = {"cpu": cpu, "memory": "16Gi", "pods": "50"}
        await self.client.create(NODES, {"apiVersion": "v1", "kind": "Node", "metadata": {"name": name}})
        key = Key("", name)
        await self.client.patch(
            NODES, key, {"status": {"allocatable": resources, "capacity": resources}}, PatchKind.MERGE, subresource="status"
        )
        await self.client.patch(NODES, key, {"spec": {"taints": None}}, PatchKind.MERGE)

    async def gang(self, name, size, *, cpu="1", minimum=None, queue="default", phase="Pending", priority="", trace=""):
        group = {
            "apiVersion": POD_GROUPS.api_version,
            "kind": POD_GROUPS.kind,
            "metadata": {"namespace": "default", "name": name, "annotations": {TRACEPARENT: trace} if trace else {}},
            "spec": {"minMember": size if minimum is None else minimum, "queue": queue, "priorityClassName": priority},
            "status": {"phase": phase},
        }
        made = await self.client.create(POD_GROUPS, group, namespace="default")
        for i in range(size):
            await self.pod(f"{name}-w-{i}", name, cpu, owner=made, priority=priority)

    async def queue(self, name, **spec):
        kind = {"apiVersion": QUEUES.api_version, "kind": QUEUES.kind}
        await self.client.create(QUEUES, {**kind, "metadata": {"name": name}, "spec": spec, "status": {"state": "Open"}})

    async def pod(self, name, group, cpu, *, owner=None, priority=""):
        metadata = {"namespace": "default", "name": name, "annotations": {GROUP: group}}
        if owner is not None:
            kind = {"apiVersion": POD_GROUPS.api_version, "kind": POD_GROUPS.kind, "controller": True}
            metadata["ownerReferences"] = [{**kind, "name": owner["metadata"]["name"], "uid": owner["metadata"]["uid"]}]
        container = {"name": "c", "image": "i", "resources": {"requests": {"cpu": cpu, "memory": "1Gi"}}}
        body = {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": metadata,
            "spec": {"schedulerName": "volcano", "priorityClassName": priority, "containers": [container]},
        }
        await self.client.create(PODS, body, namespace="default")

    async def bind(self, pod, node):
        """Bind a pod as another scheduler does."""
        target = {"apiVersion": "v1", "kind": "Node", "name": node}
        body = {"apiVersion": "v1", "kind": "Binding", "metadata": {"name": pod}, "target": target}
        await self.client.create(PODS, body, namespace="default", name=pod, subresource="binding")

    async def known(self, pod, *nodes, now=time.monotonic):
        """A cache that has read these nodes and one pod, and the pod's UID."""
        cache = Cache(now=now)
        for node in nodes:
            cache.node_changed(None, msgspec.convert(await self.client.get(NODES, Key("", node)), records.Node, strict=False))
        found = msgspec.convert(await self.client.get(PODS, Key("default", pod)), records.Pod, strict=False)
        cache.pod_changed(None, found)
        return cache, found.metadata.uid

    async def make(self, kind, name, spec, *, annotations=None):
        metadata = {"namespace": "default", "name": name, "annotations": annotations or {}}
        body = {"apiVersion": kind.api_version, "kind": kind.kind, "metadata": metadata, "spec": spec}
        return await self.client.create(kind, body, namespace="default")

    async def places(self, prefix=""):
        pods, _ = await self.client.list(PODS)
        return {
            pod["metadata"]["name"]: pod["spec"].get("nodeName") for pod in pods if pod["metadata"]["name"].startswith(prefix)
        }

    async def group(self, name):
        return await self.client.get(POD_GROUPS, Key("default", name))

    async def until(self, what, *, within=60.0):
        """Wait until `what()` gives something true, and return it."""
        found = None
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(within):
                while not (found := await what()):
                    await asyncio.sleep(0.05)
        assert found, what
        return found

    @contextlib.asynccontextmanager
    async def scheduler(self, **flags):
        """Run the service while the block lasts."""
        settings = load(SchedulerSettings, {"kubeconfig": str(self.server.kubeconfig), "leader-elect": "false", **flags})
        task = asyncio.create_task(Service("pyroclast-scheduler", settings).run(main))
        try:
            yield task
        finally:
            task.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await task


@pytest.fixture
async def cluster():
    async with running_server() as server, Client(load_config(str(server.kubeconfig))) as client:
        wanted = {"podgroups.scheduling.volcano.sh", "queues.scheduling.volcano.sh"}
        for crd in crds.custom_resource_definitions():
            if crd["metadata"]["name"] in wanted:
                await client.create(CRDS, crd)
        await client.create(NAMESPACES, {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "volcano-system"}})
        yield Cluster(server, client)


@pytest.fixture
def impatient(monkeypatch):
    """A gang is released once it was incomplete for a second."""
    monkeypatch.setattr(gangs, "PATIENCE_SECONDS", 1.0)
