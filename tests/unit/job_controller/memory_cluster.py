"""The whole job controller on an API server in memory, in virtual time, with the least of a scheduler and of nodes beside it."""

from __future__ import annotations

import asyncio
import contextlib
import functools
import inspect
import selectors
from collections.abc import Callable, Coroutine
from typing import Any, TypeVar, cast

from pyroclast.api.types import JOBS, POD_GROUPS, PODS, QUEUES, Key
from pyroclast.kube.events.recorder import EventRecorder
from pyroclast.kube.http.client import Client, PatchKind
from pyroclast.lifecycle.times import format_time
from pyroclast.runtime.controllers import Controller, work
from pyroclast.runtime.service import Service
from pyroclast_job_controller.app import COMPONENT, build, make_shared
from pyroclast_job_controller.caches import Shared
from pyroclast_job_controller.settings import ControllerSettings
from tests.unit.ending import ended

from .cluster import NS, task
from .memory_server import MemoryClient, MemoryServer

T = TypeVar("T")


class _NoWaiting(selectors.SelectSelector):
    """Where a loop would wait, its clock is put forward."""

    clock = 0.0

    def select(self, timeout: float | None = None) -> Any:
        self.clock += timeout or 0.0
        return super().select(0)


class VirtualLoop(asyncio.SelectorEventLoop):
    """An event loop in which sleeping takes no time."""

    def __init__(self) -> None:
        self._virtual = _NoWaiting()
        super().__init__(self._virtual)

    def time(self) -> float:
        return self._virtual.clock


class Replica:
    """One process of the controller; the shards that it leads are given to it."""

    def __init__(
        self, server: MemoryServer, *, shards: int, workloads: bool = False, seats: bool = False, **settings: Any
    ) -> None:
        self.client, self._workloads = MemoryClient(server), workloads
        self.settings = ControllerSettings(leader_elect=False, leader_elect_shards=shards, place_before_pods=seats, **settings)
        self._tasks: dict[int, asyncio.Task[None]] = {}
        self._running: asyncio.Task[None] | None = None
        self.shared: Shared
        self.controllers: list[Controller] = []

    async def start(self) -> None:
        ready = asyncio.Event()
        self._running = asyncio.get_running_loop().create_task(self._run(ready))
        await ready.wait()

    async def _run(self, ready: asyncio.Event) -> None:
        service, client = Service("test", self.settings), cast(Client, self.client)
        recorder = EventRecorder(client, COMPONENT)
        self.shared = make_shared(service, client, recorder, self.settings)
        self.controllers = build(service, self.settings, self.shared)
        async with asyncio.TaskGroup() as group:
            caches = self.shared.caches
            informers = [*caches.informers, *(caches.optional if self._workloads else ())]
            for informer in informers:
                group.create_task(informer.run())
            for informer in informers:
                await informer.synced()
            ready.set()

    def take(self, shard: int) -> None:
        if shard not in self._tasks:
            self._tasks[shard] = asyncio.get_running_loop().create_task(work(self.shared, self.controllers, shard))

    async def give(self, shard: int) -> None:
        running = self._tasks.pop(shard, None)
        if running is not None:
            await ended(running)

    async def kill(self) -> None:
        for shard in list(self._tasks):
            await self.give(shard)
        if self._running is not None:
            await ended(self._running)
            self._running = None


class MemoryCluster:
    """A server, replicas of the controller, and what users, nodes, strangers and the scheduler do.

    `workloads`: the workloads of Kubernetes are watched too. `seats`: gangs are placed before their pods exist. `settings`: more
    of those of the controller.
    """

    def __init__(self, *, shards: int = 1, workloads: bool = False, seats: bool = False, **settings: Any) -> None:
        self.server, self.shards, self._workloads, self.seats = MemoryServer(), shards, workloads, seats
        self._settings = settings
        self.replica = Replica(self.server, shards=shards)

    async def start(self) -> None:
        for name, parent in (("root", {}), ("default", {"parent": "root"})):
            meta, spec = {"name": name}, {"weight": 1, **parent}
            body = {"apiVersion": QUEUES.api_version, "kind": "Queue", "metadata": meta, "spec": spec}
            self.server.create(QUEUES, {**body, "status": {"state": "Open"}})
        await self.start_controller()

    async def start_controller(self) -> None:
        self.replica = Replica(self.server, shards=self.shards, workloads=self._workloads, seats=self.seats, **self._settings)
        await self.replica.start()
        for shard in range(self.shards):
            self.replica.take(shard)

    def job(self, name: str, *tasks: dict[str, Any], **spec: Any) -> None:
        rows = tasks or (task(),)
        gang = sum(row.get("minAvailable", row["replicas"]) for row in rows)
        body = {
            "apiVersion": JOBS.api_version,
            "kind": "Job",
            "metadata": {"name": name, "namespace": NS},
            "spec": {"minAvailable": gang, "queue": "default", "schedulerName": "volcano", "tasks": list(rows), **spec},
        }
        self.server.create(JOBS, body)

    async def running(self, name: str, *tasks: dict[str, Any], **spec: Any) -> None:
        """Make a Job, let its gang in, and wait until all its pods run."""
        self.job(name, *tasks, **spec)
        await self.until(lambda: bool(self.server.of(PODS)) or self.admit())
        await self.until(lambda: len(self.pods()) == sum(each["replicas"] for each in tasks))
        self.run_pods()
        await self.until(lambda: self.phase(name) == "Running")

    def status(self, name: str) -> dict[str, Any]:
        return cast(dict[str, Any], self.server.of(JOBS)[Key(NS, name)].get("status") or {})

    def phase(self, name: str) -> str:
        return str(self.status(name).get("state", {}).get("phase", ""))

    def pods(self) -> list[dict[str, Any]]:
        return list(self.server.of(PODS).values())

    def admit(self) -> None:
        for key, group in list(self.server.of(POD_GROUPS).items()):
            if (group.get("status") or {}).get("phase", "Pending") == "Pending":
                self.server.patch(POD_GROUPS, key, {"status": {"phase": "Inqueue"}}, PatchKind.MERGE)

    def bind(self) -> None:
        for pod in self.pods():
            if not pod["spec"].get("nodeName"):
                self.server.patch(PODS, key_of(pod), {"spec": {"nodeName": "n1"}}, PatchKind.MERGE)

    def set_phase(self, pod: dict[str, Any], phase: str, exit_code: int = 0) -> None:
        ended = {"exitCode": exit_code, "finishedAt": format_time(self.server.now())}
        state = {"terminated": ended} if phase in ("Failed", "Succeeded") else {}
        container = {"name": "c", "ready": phase == "Running", "restartCount": 0, "state": state}
        body = {"status": {"phase": phase, "containerStatuses": [container]}}
        self.server.patch(PODS, key_of(pod), body, PatchKind.MERGE, "status")

    def run_pods(self, phase: str = "Running") -> None:
        self.bind()
        for pod in self.pods():
            if pod["status"]["phase"] == ("Pending" if phase == "Running" else "Running"):
                self.set_phase(pod, phase)

    def drain(self) -> None:
        for pod in self.pods():
            if "deletionTimestamp" in pod["metadata"]:
                self.server.delete(PODS, key_of(pod), grace=0)

    async def until(self, what: Callable[[], object], *, within: float = 60.0) -> None:
        async with asyncio.timeout(within):
            while not what():
                await asyncio.sleep(0.01)


def key_of(item: dict[str, Any]) -> Key:
    return Key(item["metadata"].get("namespace", ""), item["metadata"]["name"])


def in_virtual_time(
    scenario: Callable[[MemoryCluster], Coroutine[Any, Any, T]],
    *,
    shards: int = 1,
    workloads: bool = False,
    seats: bool = False,
    **settings: Any,
) -> T:
    """Run `scenario` on a fresh cluster."""

    async def run() -> T:
        cluster = MemoryCluster(shards=shards, workloads=workloads, seats=seats, **settings)
        await cluster.start()
        try:
            return await scenario(cluster)
        finally:
            await cluster.replica.kill()

    with contextlib.closing(VirtualLoop()) as loop:
        return loop.run_until_complete(run())


def given_by(run: Callable[[Callable[[Any], Coroutine[Any, Any, None]]], None]) -> Callable[[Any], Callable[..., None]]:
    """Make a test of an asynchronous function: `run` calls it with the first argument, pytest gives it the others."""

    def decorate(test: Callable[..., Coroutine[Any, Any, None]]) -> Callable[..., None]:
        @functools.wraps(test)
        def called(**fixtures: Any) -> None:
            run(lambda given: test(given, **fixtures))

        _, *others = inspect.signature(test).parameters.values()
        called.__signature__ = inspect.Signature(others)  # type: ignore[attr-defined]
        return called

    return decorate


def virtual_cluster(**options: Any) -> Callable[[Any], Callable[..., None]]:
    """Give an asynchronous test a fresh `cluster` in virtual time. `options`: those of `MemoryCluster`."""
    return given_by(lambda test: in_virtual_time(test, **options))


__all__ = ["MemoryCluster", "Replica", "VirtualLoop", "given_by", "in_virtual_time", "key_of", "virtual_cluster"]
