"""Refused or outdated binds: a PodGroup waits longer after each refusal, and a bind for a locked or lost node is dropped."""

from __future__ import annotations

import asyncio
import contextlib

import msgspec
import pytest
from prometheus_client import CollectorRegistry

from pyroclast.api import records
from pyroclast.api.types import EVENTS, NODES, PODS, Key
from pyroclast.kube.basics.errors import KubeError
from pyroclast.kube.basics.time_slices import Turn
from pyroclast.kube.events.recorder import EventRecorder
from pyroclast_scheduler.cache.cache import Cache
from pyroclast_scheduler.model.tasks import TaskStatus
from pyroclast_scheduler.session.outcome import Binds, Commit
from pyroclast_scheduler.shell.bind_pauses import BindPauses
from pyroclast_scheduler.shell.binder import Binder
from pyroclast_scheduler.shell.metrics import SchedulerMetrics
from tests.scenarios import objects

UNLOCKED = "", 0.0


@pytest.mark.parametrize(
    ("locked", "is_bound"),
    [
        pytest.param({"n1": ("default/other", 100.0)}, False, id="locked by the session that placed it"),
        pytest.param({"n1": ("default/other", 101.0)}, False, id="locked later"),
        pytest.param({"n1": ("default/other", 99.0)}, True, id="placed by a session that knew of the lock"),
        pytest.param({"n1": ("default/g", 100.0)}, True, id="locked for the job itself"),
        pytest.param({"n2": ("default/other", 100.0)}, True, id="another node is locked"),
    ],
)
async def test_a_queued_bind_is_dropped_only_if_another_job_locked_its_node_since_the_session(cluster, locked, is_bound):
    locks = {}
    async with waiting_bind(cluster, lock=lambda node: locks.get(node, UNLOCKED)) as (cache, uid):
        locks.update(locked)
    assert (await cluster.places("g-"))["g-w-0"] == ("n1" if is_bound else None)
    assert (cache.tasks[uid].node == "n1") is is_bound


async def test_a_queued_bind_is_dropped_when_its_node_is_deleted(cluster):
    async with waiting_bind(cluster) as (cache, uid):
        node = await cluster.client.get(NODES, Key("", "n1"))
        cache.node_changed(msgspec.convert(node, records.Node, strict=False), None)
    assert (await cluster.places("g-"))["g-w-0"] is None
    assert not cache.tasks[uid].node


async def test_a_pod_bound_by_another_client_keeps_that_node_and_is_not_reported_as_refused(cluster):
    refused = []
    async with waiting_bind(cluster, refused=lambda task, _why: refused.append(task.name)) as (cache, uid):
        await cluster.bind("g-w-0", "n2")
    assert (cache.tasks[uid].node, cache.tasks[uid].status) == ("n2", TaskStatus.BOUND)
    assert refused == []


@contextlib.asynccontextmanager
async def waiting_bind(cluster, *, refused=lambda _task, _why: None, lock=lambda _node: UNLOCKED):
    """A bind of g-w-0 to n1 that waits while the block lasts; at its end it is sent or dropped, and what came of it is known."""
    await cluster.node("n1")
    await cluster.gang("g", 1)
    cache, uid = await cluster.known("g-w-0", "n1")
    parts = cluster.client, cache, EventRecorder(cluster.client, "test"), SchedulerMetrics(CollectorRegistry())
    binder = Binder(*parts, refused=refused, lock=lock)
    await binder.take(Commit((Binds("default/g", ((uid, "n1"),)),)), Turn(), session=100.0)
    assert cache.tasks[uid].node == "n1", "it is believed to be there while it waits"
    yield cache, uid

    async def is_settled():
        places = await cluster.places("g-")
        return places["g-w-0"] == "n1" or cache.tasks[uid].node != "n1"

    async with asyncio.TaskGroup() as group:
        work = group.create_task(binder.run())
        await cluster.until(is_settled)
        work.cancel()


JOB = "t/g"


def test_bind_pause_of_a_pod_doubles_with_each_refusal_up_to_five_seconds():
    pauses, now, delays = BindPauses(), 100.0, []
    for _ in range(9):
        delays.append(pauses.refuse(JOB, "u", "g-0", now))
        now += delays[-1]
    assert [round(each, 3) for each in delays] == [0.1, 0.2, 0.4, 0.8, 1.6, 3.2, 5.0, 5.0, 5.0]


def test_bind_refusals_of_many_pods_at_once_count_as_one():
    pauses = BindPauses()
    delays = [pauses.refuse(JOB, "u", f"g-{i}", 100.0 + i / 1000) for i in range(50)]
    assert [round(100.0 + i / 1000 + delay, 3) for i, delay in enumerate(delays)] == [100.1] * 50
    assert pauses.refuse(JOB, "u", "g-0", 100.2) == pytest.approx(0.2)


def test_pause_of_a_gang_doubles_with_each_release_up_to_300_seconds():
    pauses, now, delays = BindPauses(), 100.0, []
    for _ in range(7):
        pauses.refuse(JOB, "u", "g-0", now)
        delays.append(pauses.release(JOB, "u", now + 5))
        now += 5 + delays[-1]
    assert delays == [10, 20, 40, 80, 160, 300, 300]
    assert pauses.left(JOB, now - 1) == 1


ENDS = {
    "the refused pod is bound": (lambda pauses: pauses.bound(JOB, "g-0"), 0),
    "another pod is bound": (lambda pauses: pauses.bound(JOB, "g-1"), 10),
    "the PodGroup is made again": (lambda pauses: pauses.refuse(JOB, "v", "g-0", 101.0), 0),
    "nothing was refused for long": (lambda pauses: pauses.refuse("t/other", "w", "p", 5000.0), 0),
}


@pytest.mark.parametrize(("event", "want"), ENDS.values(), ids=ENDS)
def test_bind_refusals_count_until_the_pod_is_bound_the_podgroup_recreated_or_time_passes(event, want):
    pauses = BindPauses()
    pauses.refuse(JOB, "u", "g-0", 100.0)
    event(pauses)
    assert pauses.release(JOB, "u", 200.0) == want


def world():
    cache = Cache()
    cache.queue_changed(None, objects.queue(["q"]))
    cache.group_changed(None, objects.pod_group(["g", "q", 1]))
    cache.pod_changed(None, objects.pod(["g-0", "g", "-", 1, "1Gi"]))
    return cache


def test_pods_created_while_their_gang_is_paused_are_held_until_it_resumes():
    cache = world()
    cache.pods.pause(JOB)
    cache.pod_changed(None, objects.pod(["g-1", "g", "-", 1, "1Gi"]))
    cache.pod_changed(None, objects.pod(["other", "o", "-", 1, "1Gi"]))
    cache.pods.release("t-g-1")  # a pause of the pod alone ends before
    assert cache.snapshot().held == {"t-g-0", "t-g-1"}
    cache.pods.resume(JOB)
    assert cache.snapshot().held == set()
    assert [facts.key for facts in cache.snapshot().jobs] == [JOB]


def test_a_recreated_podgroup_is_not_paused():
    cache = world()
    cache.pods.pause(JOB)
    group = cache.groups.written(JOB)
    cache.group_changed(group, None)
    cache.pod_changed(objects.pod(["g-0", "g", "-", 1, "1Gi"]), None)
    cache.group_changed(None, msgspec.structs.replace(group, metadata=msgspec.structs.replace(group.metadata, uid="new")))
    cache.pod_changed(None, objects.pod(["g-0", "g", "-", 1, "1Gi"]))
    assert cache.snapshot().held == set()


@pytest.mark.usefixtures("impatient")
async def test_a_gang_released_after_refused_binds_is_not_placed_again_within_two_seconds(cluster):
    await cluster.node("n1", cpu="8")
    await cluster.gang("g", 2, phase="Inqueue")
    await cluster.bind("g-w-0", "n1")
    for _ in range(30):  # all that is tried until the gang is released, and more
        cluster.server.fail_next("create", "pods", 403)

    async def released():
        events, _ = await cluster.client.list(EVENTS)
        pods, _ = await cluster.client.list(PODS)
        return "GangReleased" in {event["reason"] for event in events} and all(
            pod["metadata"]["name"] != "g-w-0" or "deletionTimestamp" in pod["metadata"] for pod in pods
        )

    async with cluster.scheduler():
        await cluster.until(released)
        await cluster.client.delete(PODS, Key("default", "g-w-0"), grace_seconds=0)
        await cluster.until(lambda: made_again(cluster))
        await asyncio.sleep(2.0)
        assert await cluster.places("g-") == {"g-w-0": None, "g-w-1": None}


async def made_again(cluster):
    """As its controller does it, once the failures that nobody met are used up."""
    try:
        await cluster.pod("g-w-0", "g", "1", owner=await cluster.group("g"))
    except KubeError:
        return False
    return True
