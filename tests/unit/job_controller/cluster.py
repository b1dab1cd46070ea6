"""The job controller on an embedded API server, with the least of a scheduler and of nodes beside it."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

from pyroclast.api import keys
from pyroclast.api.commands import authorization
from pyroclast.api.crds import custom_resource_definitions
from pyroclast.api.types import (
    COLOCATION_CONFIGURATIONS,
    COMMANDS,
    CRDS,
    CRON_JOBS,
    HYPER_JOBS,
    HYPER_NODES,
    JOBS,
    NODE_SHARDS,
    POD_GROUPS,
    PODS,
    QUEUES,
    Key,
)
from pyroclast.kube.basics.errors import Conflict, KubeError, NotFound
from pyroclast.kube.credentials.config import load_config
from pyroclast.kube.events.recorder import EventRecorder
from pyroclast.kube.http.client import Client, PatchKind
from pyroclast.runtime.controllers import work
from pyroclast.runtime.service import Service
from pyroclast_job_controller.app import COMPONENT, build, make_shared
from pyroclast_job_controller.settings import ControllerSettings
from tests.unit.ending import ended
from tests.unit.running import RunningServer, running_server

STEP = 0.03
KINDS = {
    kind.qualified
    for kind in (COLOCATION_CONFIGURATIONS, COMMANDS, CRON_JOBS, HYPER_JOBS, HYPER_NODES, JOBS, NODE_SHARDS, POD_GROUPS, QUEUES)
}
"""The custom kinds that the controller uses."""
NS = "default"


def authorized(action: str, target: dict[str, Any], **metadata: Any) -> dict[str, Any]:
    """A Command as admission leaves it."""
    annotations = {keys.AUTHORIZED_FOR: authorization(target["uid"], action)}
    meta = {"namespace": NS, "annotations": annotations, **metadata}
    return {"apiVersion": COMMANDS.api_version, "kind": "Command", "metadata": meta, "action": action, "target": target}


class Cluster:
    def __init__(self, server: RunningServer, client: Client) -> None:
        self.server, self.client = server, client
        self.holding: set[str] = set()
        """Pods that do not end by themselves."""
        self.lost: set[str] = set()
        """Nodes of which nobody says that a pod has ended."""
        self.admitting = True
        self.idle = False
        """Whether pods stay as they are."""
        self._controller: asyncio.Task[None] | None = None
        self.shards: dict[int, asyncio.Task[None]] = {}
        """The work on each shard that is led."""
        self.take: Callable[[int], asyncio.Task[None]]
        self.service: Service | None = None
        self.controller_client = client
        """That of the controller, for faults of the way there and back."""

    # the controller

    async def start(self, **settings: Any) -> None:
        ready = asyncio.Event()
        self._controller = asyncio.get_running_loop().create_task(self._run(ready, settings))
        await ready.wait()

    async def kill(self) -> None:
        """Stop it in the middle of whatever it does."""
        if self._controller is not None:
            await ended(self._controller)
            self._controller = None

    async def give(self, shard: int) -> None:
        """Another replica takes over a shard."""
        await ended(self.shards[shard])

    async def _run(self, ready: asyncio.Event, more: dict[str, Any]) -> None:
        settings = ControllerSettings(kubeconfig=str(self.server.kubeconfig), leader_elect=False, **more)
        self.service = Service("test", settings)
        async with Client(load_config(settings.kubeconfig)) as client, asyncio.TaskGroup() as group:
            self.controller_client = client
            recorder = EventRecorder(client, COMPONENT)
            shared = make_shared(self.service, client, recorder, settings)
            controllers = build(self.service, settings, shared)
            for informer in [*shared.caches.informers, *shared.caches.optional]:
                group.create_task(informer.run())
            group.create_task(recorder.run())
            for informer in shared.caches.informers:
                await informer.synced()
            self.take = lambda shard: group.create_task(work(shared, controllers, shard))
            for shard in range(settings.leader_elect_shards):
                self.shards[shard] = self.take(shard)
            ready.set()

    # scheduler and nodes

    async def drive(self) -> None:
        while True:
            for group in (await self.client.list(POD_GROUPS))[0]:
                if self.admitting and (group.get("status") or {}).get("phase", "Pending") == "Pending":
                    await self._try(
                        self.client.patch(POD_GROUPS, key_of(group), {"status": {"phase": "Inqueue"}}, PatchKind.MERGE)
                    )
            for pod in (await self.client.list(PODS))[0]:
                if pod["metadata"].get("deletionTimestamp"):
                    if pod["spec"].get("nodeName") in self.lost:
                        continue
                    await self._try(self.client.delete(PODS, key_of(pod), grace_seconds=0))
                    continue
                following = None if self.idle else self._following(pod)
                if following:
                    await self._try(self.set_phase(pod["metadata"]["name"], following, namespace=pod["metadata"]["namespace"]))
            await asyncio.sleep(STEP)

    def _following(self, pod: dict[str, Any]) -> str | None:
        match pod["status"].get("phase", "Pending"):
            case "Pending":
                return "Running"
            case "Running" if pod["metadata"]["name"] not in self.holding and "all" not in self.holding:
                return "Succeeded"
            case _:
                return None

    async def set_phase(self, name: str, phase: str, *, namespace: str = NS, exit_code: int = 1) -> None:
        state = {"terminated": {"exitCode": exit_code if phase == "Failed" else 0}} if phase in ("Failed", "Succeeded") else {}
        container = {"name": "c", "ready": phase == "Running", "restartCount": 0, "image": "b", "imageID": "", "state": state}
        status = {"phase": phase, "containerStatuses": [container]}
        await self.client.patch(PODS, Key(namespace, name), {"status": status}, PatchKind.MERGE, subresource="status")

    async def _try(self, what: Awaitable[object]) -> None:
        with contextlib.suppress(NotFound, Conflict):
            await what

    # what users do

    async def job(self, name: str, *tasks: dict[str, Any], **spec: Any) -> None:
        rows = tasks or (task(),)
        body = {
            "apiVersion": JOBS.api_version,
            "kind": "Job",
            "metadata": {"name": name, "namespace": spec.pop("namespace", NS)},
            "spec": {
                "minAvailable": sum(row["replicas"] for row in rows),
                "queue": "default",
                "schedulerName": "volcano",
                "tasks": list(rows),
                **spec,
            },
        }
        await self.client.create(JOBS, body)

    async def running(self, name: str, *tasks: dict[str, Any], **spec: Any) -> None:
        """Make a Job, and wait until it runs."""
        await self.job(name, *tasks, **spec)
        await self.reaches(name, "Running")

    async def phase(self, name: str) -> str:
        job = await self.client.get(JOBS, Key(NS, name))
        return str((job.get("status") or {}).get("state", {}).get("phase", ""))

    async def until(self, what: Callable[[], Awaitable[object]], within: float = 60.0) -> None:
        async with asyncio.timeout(within):
            while not await what():
                await asyncio.sleep(STEP)

    async def reaches(self, name: str, *phases: str) -> None:
        async def there() -> bool:
            return await self.phase(name) in phases

        await self.until(there)

    async def names(self, kind: Any, namespace: str = NS) -> list[str]:
        return sorted(item["metadata"]["name"] for item in (await self.client.list(kind, namespace))[0])


def task(name: str = "a", replicas: int = 1, **more: Any) -> dict[str, Any]:
    containers = [{"name": "c", "image": "busybox"}]
    spec = {"restartPolicy": "Never", "terminationGracePeriodSeconds": 0, "containers": containers}
    return {"name": name, "replicas": replicas, "minAvailable": replicas, "template": {"spec": spec}, **more}


def key_of(item: dict[str, Any]) -> Key:
    return Key(item["metadata"].get("namespace", ""), item["metadata"]["name"])


@contextlib.asynccontextmanager
async def running_cluster() -> AsyncIterator[Cluster]:
    async with running_server() as server, Client(load_config(str(server.kubeconfig))) as client:
        for crd in custom_resource_definitions():
            if crd["metadata"]["name"] in KINDS:
                await client.create(CRDS, crd)
        await server.settle()
        for name in ("root", "default"):
            body = {"apiVersion": QUEUES.api_version, "kind": "Queue", "metadata": {"name": name}, "spec": {"weight": 1}}
            await _established(client, body)
        cluster = Cluster(server, client)
        driving = asyncio.get_running_loop().create_task(cluster.drive())
        try:
            await cluster.start()
            yield cluster
            if driving.done():
                driving.result()
        finally:
            await cluster.kill()
            await ended(driving)


async def _established(client: Client, body: dict[str, Any]) -> None:
    """Create an object of a kind that may not be served yet."""
    for _ in range(100):
        try:
            await client.create(QUEUES, body)
        except NotFound:
            await asyncio.sleep(STEP)
        else:
            return
    raise KubeError("queues are not served")
