"""A small cluster: the job controller as it is, the scheduler without its threads, nodes, and a judge that reads every write."""

from __future__ import annotations

import asyncio
import contextlib
from collections import Counter
from collections.abc import Callable
from typing import Any, cast

from prometheus_client import CollectorRegistry

from pyroclast.api import records
from pyroclast.api.types import JOBS, NODES, POD_GROUPS, PODS, QUEUES, Key, ResourceType
from pyroclast.kube.basics.errors import Conflict, KubeError, NotFound
from pyroclast.kube.basics.time_slices import Turn
from pyroclast.kube.events.recorder import EventRecorder
from pyroclast.kube.http.client import Client, PatchKind
from pyroclast.kube.watch.informer import Informer
from pyroclast.resources import quantity
from pyroclast_scheduler import registry
from pyroclast_scheduler.cache.cache import Cache
from pyroclast_scheduler.session.configuration import DEFAULT_CONFIGURATION, parse
from pyroclast_scheduler.shell.binder import Binder
from pyroclast_scheduler.shell.gangs import GangKeeper
from pyroclast_scheduler.shell.metrics import SchedulerMetrics
from pyroclast_scheduler.shell.seat_keeper import SeatKeeper
from pyroclast_scheduler.shell.writer import Writer
from tests.unit.ending import ended
from tests.unit.job_controller.cluster import NS
from tests.unit.job_controller.memory_cluster import MemoryCluster, key_of
from tests.unit.job_controller.memory_server import MemoryClient
from tests.unit.scheduler.deciding import committed

CONFIGURATION = parse(DEFAULT_CONFIGURATION, actions=registry.actions(), plugins=registry.plugins())
CYCLE_SECONDS = 0.2
START_SECONDS = 0.3


class SchedulerClient(MemoryClient):
    """As the controller's, with binds and lists of one object."""

    async def create(self, kind: ResourceType, body: Any, *, name: str = "", subresource: str = "", **more: Any) -> Any:
        if subresource != "binding":
            return await super().create(kind, body, **more)
        key, node = Key(more.get("namespace", NS), name), body["target"]["name"]

        def bind() -> dict[str, Any]:
            pod = self.server.of(PODS).get(key)
            if pod is None:
                raise NotFound(404, "NotFound", f"{key} not found")
            if pod["spec"].get("nodeName") or pod["metadata"]["uid"] != body["metadata"]["uid"]:
                raise Conflict(409, "Conflict", f"{key} is bound, or another")
            return self.server.patch(PODS, key, {"spec": {"nodeName": node}}, PatchKind.MERGE)

        return await self._write("bind", kind, bind)

    async def list(self, kind: ResourceType, namespace: str = "", *, field_selector: str = "", **more: Any) -> Any:
        items, version = await super().list(kind, namespace, **more)
        name = field_selector.removeprefix("metadata.name=")
        return [item for item in items if not name or item["metadata"]["name"] == name], version


class Scheduler:
    """One process of the scheduler, which leads as long as it runs."""

    def __init__(self, world: World) -> None:
        self.client = SchedulerClient(world.cluster.server)
        self._client = cast(Client, self.client)
        self._task: asyncio.Task[None] | None = None

    async def start(self) -> None:
        clock = asyncio.get_running_loop().time
        self.cache = Cache(places_seats=True, now=clock)
        recorder = EventRecorder(self._client, "volcano")
        metrics = SchedulerMetrics(CollectorRegistry())
        self._writer = Writer(self._client, self.cache, recorder, now=self.client.now)
        parts = self._client, self.cache, recorder, metrics
        self._binder = Binder(*parts, refused=self._writer.bind_refused, lock=lambda _node: ("", 0.0))
        self._keeper = GangKeeper(self._client, self.cache, recorder)
        self._seats = SeatKeeper(self._client, self.cache, recorder, now=clock)
        ready = asyncio.Event()
        self._task = asyncio.create_task(self._run(ready))
        await ready.wait()

    async def _run(self, ready: asyncio.Event) -> None:
        watched: list[tuple[ResourceType, Any, Callable[[Any, Any], None]]] = [
            (NODES, records.Node, self.cache.node_changed),
            (QUEUES, records.Queue, self.cache.queue_changed),
            (POD_GROUPS, records.PodGroup, self.cache.group_changed),
            (PODS, records.Pod, self.cache.pod_changed),
        ]
        async with asyncio.TaskGroup() as group:
            informers = [Informer(self._client, kind, record) for kind, record, _ in watched]
            for informer, (_, _, take) in zip(informers, watched, strict=True):
                informer.on_change(take)
                group.create_task(informer.run())
            for informer in informers:
                await informer.synced()
            for work in (self._binder.run, self._writer.run, self._seats.run, self._cycles):
                group.create_task(work())
            ready.set()

    async def _cycles(self) -> None:
        while True:
            await asyncio.sleep(CYCLE_SECONDS)
            self.cache.recheck()
            now = self.client.now()
            outcome, commits = committed(self.cache, CONFIGURATION, now=now)
            self.cache.groups.gone()
            await asyncio.sleep(0.02)  # what the session takes in its thread
            for commit in commits:
                await self._binder.take(commit, Turn(), session=now)
            await self._writer.take(outcome)
            for key in outcome.retried:
                self.cache.retries.examine_again(key)
            for job in outcome.unschedulable:
                self.cache.retries.add(job)
            for job in self._keeper.take(outcome.incomplete, self.client.now()):
                await self._keeper.release(job)

    async def kill(self) -> None:
        if self._task is not None:
            await ended(self._task)
            self._task = None


class Judge:
    """Reads every write, and knows nothing of seats: what is on a node, and whether it is too much."""

    def __init__(self, world: World) -> None:
        self._world = world
        self.faults: list[str] = []
        self.excused: set[str] = set()
        """Pods that admission made larger than it had shown, by uid: they go at once."""
        self.made_on_node = self.bound = 0
        self._seen: set[str] = set()

    def __call__(self, type_: str, kind: str, item: dict[str, Any]) -> None:
        if kind != PODS.qualified or type_ == "DELETED":
            return
        node, uid = item["spec"].get("nodeName"), item["metadata"]["uid"]
        if not node or uid in self._seen:
            return
        self._seen.add(uid)
        self.made_on_node += type_ == "ADDED"
        self.bound += type_ == "MODIFIED"
        used, room = self._world.used(excused=self.excused)[node], self._world.room.get(node, 0)
        if uid not in self.excused and node in self._world.room and used > room:
            self.faults.append(f"{node}: {used} of {room} with {item['metadata']['name']}")


class World:
    """The cluster. `room`: thousandths of a CPU of each node that is there."""

    def __init__(self) -> None:
        self.cluster = MemoryCluster(seats=True)
        self.room: dict[str, int] = {}
        self.judge = Judge(self)
        self.scheduler = Scheduler(self)
        self._kubelets: asyncio.Task[None] | None = None

    async def start(self, nodes: dict[str, int]) -> None:
        self.cluster.server.on_write = self.judge
        for name, cpu in nodes.items():
            self.add_node(name, cpu)
        await self.cluster.start()
        await self.scheduler.start()
        self._kubelets = asyncio.create_task(self._run_pods())

    async def stop(self) -> None:
        if self._kubelets is not None:
            await ended(self._kubelets)
        await self.scheduler.kill()
        await self.cluster.replica.kill()

    def add_node(self, name: str, cpu: int) -> None:
        amounts = {"cpu": f"{cpu}m", "memory": "64Gi", "pods": "100"}
        body = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": name}, "spec": {}}
        self.cluster.server.create(NODES, {**body, "status": {"allocatable": amounts, "capacity": amounts}})
        self.room[name] = cpu

    def lose_node(self, name: str) -> None:
        """The node goes, and with it what was on it."""
        self.cluster.server.delete(NODES, Key("", name))
        self.room.pop(name)
        for pod in self.cluster.pods():
            if pod["spec"].get("nodeName") == name:
                self.cluster.server.delete(PODS, key_of(pod), grace=0)

    def cordon(self, name: str, *, closed: bool) -> None:
        self.cluster.server.patch(NODES, Key("", name), {"spec": {"unschedulable": closed or None}}, PatchKind.MERGE)

    def used(self, *, excused: set[str]) -> Counter[str]:
        found: Counter[str] = Counter()
        for pod in self.cluster.pods():
            if pod["status"]["phase"] in {"Pending", "Running"} and pod["metadata"]["uid"] not in excused:
                found[pod["spec"].get("nodeName", "")] += cpu_of(pod)
        return found

    def halves(self) -> list[str]:
        """Jobs that have nodes for some of their pods, but not for as many as they need."""
        pods = self.cluster.pods()
        found = []
        for key, job in self.cluster.server.of(JOBS).items():
            own = [pod for pod in pods if any(o["uid"] == job["metadata"]["uid"] for o in pod["metadata"]["ownerReferences"])]
            placed = sum(bool(pod["spec"].get("nodeName")) for pod in own)
            if 0 < placed < job["spec"]["minAvailable"]:
                found.append(f"{key.name}: {placed} of {job['spec']['minAvailable']}")
        return found

    async def _run_pods(self) -> None:
        """What kubelets do: pods run after a while, and go when they are asked to."""
        since: dict[str, float] = {}
        clock = asyncio.get_running_loop().time
        while True:
            await asyncio.sleep(0.1)
            for pod in self.cluster.pods():
                uid = pod["metadata"]["uid"]
                if "deletionTimestamp" in pod["metadata"]:
                    with contextlib.suppress(KubeError):
                        self.cluster.server.delete(PODS, key_of(pod), grace=0)
                    continue
                is_starting = pod["spec"].get("nodeName") and pod["status"]["phase"] == "Pending"
                if is_starting and clock() - since.setdefault(uid, clock()) > START_SECONDS:
                    self.cluster.set_phase(pod, "Running")


def cpu_of(pod: dict[str, Any]) -> int:
    requests = [each.get("resources", {}).get("requests", {}).get("cpu", "0") for each in pod["spec"]["containers"]]
    return sum(quantity.parse(text).millis for text in requests)
