"""Binds and evictions that take long to be sent, and responses that come later than what the watch has shown since."""

from __future__ import annotations

import asyncio
import contextlib
from types import SimpleNamespace

import msgspec
import pytest
from prometheus_client import CollectorRegistry

from pyroclast.api.enums import PodGroupPhase
from pyroclast.api.records import PodGroup, PodGroupStatus
from pyroclast.api.types import POD_GROUPS, Key
from pyroclast.kube.basics.errors import ApiError
from pyroclast.kube.basics.time_slices import Turn
from pyroclast.kube.credentials.config import load_config
from pyroclast.kube.events.recorder import EventRecorder
from pyroclast.kube.http.client import Client
from pyroclast_scheduler.cache.assumptions import DEADLINE_SECONDS
from pyroclast_scheduler.cache.cache import Cache
from pyroclast_scheduler.model.tasks import TaskStatus
from pyroclast_scheduler.session.outcome import Binds, Commit, Eviction, Outcome
from pyroclast_scheduler.shell import binder, evictor
from pyroclast_scheduler.shell.metrics import SchedulerMetrics
from pyroclast_scheduler.shell.writer import Writer
from tests.scenarios import objects
from tests.unit.ending import ended

NAME = Key("default", "g")


class SlowReturn(Client):
    """Its patches are carried out at once, and answered when they may be."""

    def __init__(self, config):
        super().__init__(config)
        self.carried_out = asyncio.Event()
        self.may_return = asyncio.Event()

    async def patch(self, *args, **more):
        answer = await super().patch(*args, **more)
        self.carried_out.set()
        await self.may_return.wait()
        return answer


async def made(cluster):
    await cluster.gang("g", 0, minimum=1)
    return msgspec.convert(await cluster.group("g"), PodGroup)


@pytest.mark.parametrize("comes_again", [False, True], ids=["gone", "made-anew"])
async def test_a_late_status_response_does_not_overwrite_a_deleted_or_recreated_podgroup(cluster, *, comes_again):
    async with SlowReturn(load_config(str(cluster.server.kubeconfig))) as client:
        cache = Cache()
        writer = Writer(client, cache, EventRecorder(client, "scheduler"))
        first = await made(cluster)
        cache.group_changed(None, first)
        writing = asyncio.create_task(writer.run())
        await writer.take(Outcome(seen={str(NAME)}, statuses={str(NAME): PodGroupStatus(phase=PodGroupPhase.INQUEUE)}))
        await client.carried_out.wait()
        await cluster.client.delete(POD_GROUPS, NAME)
        cache.group_changed(first, None)
        if comes_again:
            cache.group_changed(None, await made(cluster))
        known = cache.groups.written(str(NAME))
        client.may_return.set()
        for _ in range(10):  # turns of the loop: the answer is taken up in one
            await asyncio.sleep(0)
        assert cache.groups.written(str(NAME)) is known
        assert (known is not None) is comes_again
        await ended(writing)


LATE = DEADLINE_SECONDS + 1


class Server:
    """Answers when it may: the pods by name, and what was asked for."""

    def __init__(self):
        self.may_answer = asyncio.Event()
        self.pods, self.asked, self.refusal = {}, [], None

    def now(self):
        return 0.0

    async def create(self, _kind, body, *, name, **_more):
        self.asked.append((name, body["target"]["name"]))
        await self.may_answer.wait()
        if self.refusal is not None:
            raise self.refusal
        return {}

    async def get(self, _kind, key, **_more):
        return self.pods[key.name]

    async def patch(self, _kind, key, *_more, **_others):
        self.asked.append(("told", key.name))
        await self.may_answer.wait()
        return {}

    async def delete(self, _kind, key, **_more):
        self.asked.append(("deleted", key.name))


class World:
    """A cache with a clock, `pods` of one core each and as many nodes of one core; they are on these if they are `placed`."""

    def __init__(self, pods, *, placed=False):
        self.now = 0.0
        self.cache = Cache(now=lambda: self.now)
        self.server = Server()
        self.cache.queue_changed(None, objects.queue(["q"]))
        for i in range(pods):
            self.cache.node_changed(None, objects.node([f"n{i}", 1, "8Gi"]))
            self.cache.group_changed(None, objects.pod_group([f"g{i}", "q", 1]))
            pod = objects.pod([f"p{i}", f"g{i}", f"n{i}" if placed else "-", 1, "1Gi"])
            self.cache.pod_changed(None, pod)
            self.server.pods[pod.metadata.name] = msgspec.to_builtins(pod)
        parts = self.server, self.cache, SimpleNamespace(event=lambda *_, **__: None), SchedulerMetrics(CollectorRegistry())
        self.refused = []
        self.binder = binder.Binder(
            *parts, refused=lambda task, _why: self.refused.append(task.name), lock=lambda _node: ("", 0.0)
        )
        self.evictor = evictor.Evictor(*parts, evicted=lambda _task, _whom: None)

    async def bind(self, *placed):
        for i, node in placed:
            await self.binder.take(Commit((Binds(f"t/g{i}", ((f"t-p{i}", node),)),)), Turn(), session=0.0)

    def evict(self, *numbers):
        for i in numbers:
            self.evictor.take(Commit((), (Eviction(self.cache.tasks[f"t-p{i}"], f"t/g{i}", "preempt"),)))

    def overdue(self):
        return {uid.removeprefix("t-p") for uid in self.cache.assumptions.overdue(self.now)}


@contextlib.asynccontextmanager
async def at_work(part):
    """While the block lasts; in it as many turns of the loop are taken as it needs to come to rest."""

    async def settled():
        for _ in range(50):
            await asyncio.sleep(0)

    work = asyncio.create_task(part.run())
    await settled()
    yield settled
    await ended(work)


@pytest.mark.parametrize("part", [binder, evictor], ids=["bind", "eviction"])
async def test_a_bind_or_eviction_is_assumed_until_the_response_and_its_deadline_starts_then(part):
    count = part.WORKERS + 2
    world = World(count, placed=part is evictor)
    if part is binder:
        await world.bind(*((i, f"n{i}") for i in range(count)))
    else:
        world.evict(*range(count))
    async with at_work(world.binder if part is binder else world.evictor) as settled:
        assert len(world.server.asked) == part.WORKERS
        world.now = LATE
        assert world.overdue() == set()
        world.server.may_answer.set()
        await settled()
    assert sum(verb != "told" for verb, _ in world.server.asked) == count
    world.now += DEADLINE_SECONDS - 1
    assert world.overdue() == set()
    world.now += 1
    assert len(world.overdue()) == count


@pytest.mark.parametrize("place", ["", "n1", "n0"], ids=["nowhere", "elsewhere", "there-again"])
async def test_a_superseded_bind_is_not_sent(place):
    """The pod was read and found without a node, and is placed again: each decision is sent once, and none that was given up."""
    world = World(2)
    world.server.may_answer.set()
    await world.bind((0, "n0"))
    world.cache.pods.read("t-p0", world.cache.tasks["t-p0"].pod)
    if place:
        await world.bind((0, place))
    async with at_work(world.binder):
        assert world.server.asked == ([("p0", place)] if place else [])
    assert world.cache.tasks["t-p0"].node == place


async def test_a_late_error_of_a_superseded_bind_does_not_change_the_current_assumption():
    world = World(2)
    world.server.refusal = ApiError(500, "InternalError", "no")
    await world.bind((0, "n0"))
    async with at_work(world.binder) as settled:
        world.cache.pods.read("t-p0", world.cache.tasks["t-p0"].pod)
        assert world.cache.pods.assume("t-p0", "n1") is None
        world.server.may_answer.set()
        await settled()
    assert (world.cache.tasks["t-p0"].status, world.cache.tasks["t-p0"].node) == (TaskStatus.BINDING, "n1")
    assert world.refused == []


@pytest.mark.parametrize("is_again", [False, True], ids=["stays", "goes-after-all"])
async def test_a_revoked_eviction_is_sent_only_if_decided_again(is_again):
    world = World(1, placed=True)
    world.server.may_answer.set()
    world.evict(0)
    world.cache.pods.read("t-p0", world.cache.tasks["t-p0"].pod)
    if is_again:
        world.evict(0)
    async with at_work(world.evictor):
        assert world.server.asked == ([("told", "p0"), ("deleted", "p0")] if is_again else [])


async def test_a_pod_that_is_being_evicted_is_not_evicted_again():
    world = World(1, placed=True)
    world.server.may_answer.set()
    world.evict(0, 0)
    async with at_work(world.evictor):
        assert world.server.asked == [("told", "p0"), ("deleted", "p0")]


async def test_a_pod_that_is_evicted_before_its_bind_was_sent_is_not_bound():
    world = World(1)
    world.server.may_answer.set()
    await world.bind((0, "n0"))
    world.evict(0)
    async with at_work(world.binder):
        assert world.server.asked == []
