"""Writes that the scheduler may not do: said once on the object, and tried ever more rarely however many sessions wish for it."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from prometheus_client import CollectorRegistry

from pyroclast.api.enums import PodGroupPhase
from pyroclast.api.records import PodGroupStatus
from pyroclast.api.types import POD_GROUPS, PODS, QUEUES, Key, ResourceType
from pyroclast.kube.basics.errors import Forbidden
from pyroclast.kube.events.recorder import Reference
from pyroclast_scheduler.cache.cache import Cache
from pyroclast_scheduler.model.tasks import TaskStatus
from pyroclast_scheduler.session.outcome import Commit, Eviction, Outcome, WaitingTask
from pyroclast_scheduler.shell.evictor import Evictor
from pyroclast_scheduler.shell.metrics import SchedulerMetrics
from pyroclast_scheduler.shell.writer import Writer
from tests.scenarios import runner
from tests.unit.ending import ended

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
    evictor = Evictor(client, cache, events, SchedulerMetrics(CollectorRegistry()), evicted=lambda _task: None)  # type: ignore[arg-type]
    evicting = asyncio.create_task(evictor.run())
    for _ in range(SESSIONS):
        task = task_of(cache, "p")
        if task.status is TaskStatus.RUNNING:
            evictor.take(Commit(evictions=(Eviction(task, GROUP, "preempt"),)))
        await asyncio.sleep(1)
    assert events.said == [("Pod", "Failed to update pod, err: may not patch pods")]
    assert 5 < client.tries < 15
    await ended(evicting)
