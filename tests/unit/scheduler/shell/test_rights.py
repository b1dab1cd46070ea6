"""Writes that the scheduler may not do: said once on the object, and tried ever more rarely however many sessions wish for it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import pytest
from prometheus_client import CollectorRegistry

from pyroclast.api.enums import PodGroupPhase
from pyroclast.api.records import PodGroupStatus
from pyroclast.api.types import POD_GROUPS, PODS, QUEUES, Key, ResourceType
from pyroclast.kube.basics.errors import Forbidden
from pyroclast.kube.events.recorder import Reference
from pyroclast.kube.watch.informer import Informer
from pyroclast_scheduler.cache.cache import Cache
from pyroclast_scheduler.model.tasks import TaskStatus
from pyroclast_scheduler.session.outcome import Commit, Eviction, Outcome, WaitingTask
from pyroclast_scheduler.settings import SchedulerSettings
from pyroclast_scheduler.shell.evictor import Evictor
from pyroclast_scheduler.shell.metrics import SchedulerMetrics
from pyroclast_scheduler.shell.watches import watch
from pyroclast_scheduler.shell.writer import Writer
from tests.scenarios import runner
from tests.unit.ending import ended
from tests.unit.kube.fault_server import FaultServer, Watch, answer

GROUP = "t/g"
SESSIONS = 600
"""One a second."""


class Shut:
    """An API server that lets nobody write."""

    def __init__(self) -> None:
        self.tries = 0

    async def patch(self, kind: ResourceType, _: Key, *__: Any, **___: Any) -> None:
        self.tries += 1
        raise Forbidden(403, "Forbidden", f"may not patch {kind.plural}")


class Events:
    def __init__(self) -> None:
        self.said: list[tuple[str, str]] = []

    def event(self, about: Reference, _: str, __: str, message: str, **___: Any) -> None:
        if "may not" in message:
            self.said.append((about.kind, message))


def known() -> Cache:
    cache = Cache()
    tables = {
        "nodes": [["n", 4, "4Gi"]],
        "queues": [["q"]],
        "podgroups": [["g", "q", 1]],
        "pods": [["p", "g", "n", 1, "1Gi"], ["w", "g", "-", 1, "1Gi"]],
    }
    runner.feed(cache, tables)
    return cache


def task_of(cache: Cache, name: str) -> Any:
    return next(task for task in cache.tasks.values() if task.name == name)


WISHES = {
    "the phase of a PodGroup": (POD_GROUPS, lambda _: {"statuses": {GROUP: PodGroupStatus(phase=PodGroupPhase.UNKNOWN)}}),
    "what a queue has": (QUEUES, lambda _: {"queues": {"q": {"cpu": 1000}}}),
    "why a pod waits": (PODS, lambda cache: {"waiting": [WaitingTask(task_of(cache, "w"), "Unschedulable", "why")]}),
    "that a pod is let in": (PODS, lambda cache: {"let_in": [task_of(cache, "w")]}),
}


@pytest.mark.looptime
@pytest.mark.parametrize("wish", WISHES.values(), ids=WISHES.keys())
async def test_a_forbidden_write_gets_one_event_and_is_retried_with_growing_delays(wish: Any) -> None:
    kind, parts = wish
    cache, client, events = known(), Shut(), Events()
    writer = Writer(client, cache, events, now=asyncio.get_running_loop().time)  # type: ignore[arg-type]
    writing = asyncio.create_task(writer.run())
    for _ in range(SESSIONS):
        await writer.take(Outcome(seen={GROUP}, **parts(cache)))
        await asyncio.sleep(1)
    assert events.said == [(kind.kind, f"Failed to update {kind.kind.lower()}, err: may not patch {kind.plural}")]
    assert 5 < client.tries < 15
    await ended(writing)


@pytest.mark.looptime
async def test_a_forbidden_eviction_gets_one_event_and_is_retried_with_growing_delays() -> None:
    cache, client, events = known(), Shut(), Events()
    evictor = Evictor(client, cache, events, SchedulerMetrics(CollectorRegistry()), evicted=lambda _task, _whom: None)  # type: ignore[arg-type]
    evicting = asyncio.create_task(evictor.run())
    for _ in range(SESSIONS):
        task = task_of(cache, "p")
        if task.status is TaskStatus.RUNNING:
            evictor.take(Commit(evictions=(Eviction(task, GROUP, "preempt"),)))
        await asyncio.sleep(1)
    assert events.said == [("Pod", "Failed to update pod, err: may not patch pods")]
    assert 5 < client.tries < 15
    await ended(evicting)


EMPTY = answer(200, {"metadata": {"resourceVersion": "5"}, "items": []})
KINDS = (
    "/apis/scheduling.volcano.sh/v1beta1/queues",
    "/apis/scheduling.volcano.sh/v1beta1/podgroups",
    "/apis/scheduling.k8s.io/v1/priorityclasses",
    "/api/v1/pods",
)


class Service:
    """Runs informers as the process shell does."""

    def __init__(self) -> None:
        self.tasks: list[asyncio.Task[None]] = []
        self.informers: list[Informer[Any]] = []

    def watch(self, informer: Informer[Any]) -> None:
        self.informers.append(informer)
        self.tasks.append(asyncio.ensure_future(informer.run()))


@pytest.fixture
async def server() -> AsyncIterator[FaultServer]:
    async with FaultServer() as server:
        for path in KINDS:
            server.on(f"GET {path}", EMPTY).on(f"WATCH {path}", Watch())
        yield server


async def test_a_node_with_null_image_names_is_a_node_and_an_unreadable_field_is_known(server: FaultServer) -> None:
    status = {"allocatable": {"cpu": "4", "pods": "10"}, "images": [{"names": None, "sizeBytes": 5}]}
    null = {"metadata": {"name": "null", "uid": "1", "resourceVersion": "1"}, "status": status}
    odd = {"metadata": {"name": "odd", "uid": "2", "resourceVersion": "2"}, "spec": {"unschedulable": "no"}, "status": status}
    server.on("GET /api/v1/nodes", answer(200, {"metadata": {"resourceVersion": "5"}, "items": [null, odd]}))
    server.on("WATCH /api/v1/nodes", Watch())
    cache, service = Cache(), Service()
    async with server.client() as client:
        watch(service, cache, cache, SchedulerSettings(), client, watched=lambda *_: None)  # type: ignore[arg-type]
        try:
            async with asyncio.timeout(60):
                while len(cache.nodes.rows) < 2:
                    await asyncio.sleep(0.01)
                snapshot = cache.snapshot()
                assert snapshot.is_ready.tolist() == [True, True]
                while not cache.snapshot().unread_nodes:
                    await asyncio.sleep(0.01)
                assert cache.snapshot().unread_nodes == {"odd": "spec.unschedulable: Expected `bool`, got `str`"}
        finally:
            for task in service.tasks:
                task.cancel()
            await asyncio.gather(*service.tasks, return_exceptions=True)
