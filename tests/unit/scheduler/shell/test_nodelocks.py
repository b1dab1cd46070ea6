"""Locks of nodes: one holder at a time, a stale one is taken over, and a bind that fails leaves none behind."""

import asyncio
import contextlib
from datetime import UTC, datetime

import msgspec
import pytest
from prometheus_client import CollectorRegistry

from pyroclast.api import records
from pyroclast.api.types import NODES, PODS, Key
from pyroclast.kube.basics.time_slices import Turn
from pyroclast.kube.events.recorder import EventRecorder
from pyroclast.kube.http.client import PatchKind
from pyroclast_scheduler.cache.cache import Cache
from pyroclast_scheduler.session.outcome import Binds, Commit, Preparation, Write
from pyroclast_scheduler.shell import nodelocks
from pyroclast_scheduler.shell.binder import Binder
from pyroclast_scheduler.shell.metrics import SchedulerMetrics
from pyroclast_scheduler.shell.nodelocks import LockHeld, NodeLocks

LOCK = "hamivgpu"
NODE = Key("", "n1")


def at(seconds):
    return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


async def value(cluster):
    node = await cluster.client.get(NODES, NODE)
    return node["metadata"].get("annotations", {}).get(LOCK)


async def put(cluster, text):
    await cluster.client.patch(NODES, NODE, {"metadata": {"annotations": {LOCK: text}}}, PatchKind.MERGE)


def always():
    return True


async def test_a_free_node_lock_is_taken_with_a_timestamp_and_released(cluster):
    await cluster.node("n1")
    locks = NodeLocks(cluster.client, lambda: 1_800_000_000.9)
    held = await locks.take("n1", LOCK, always)
    assert held == await value(cluster) == "2027-01-15T08:00:00Z"
    await locks.release("n1", LOCK, held)
    assert await value(cluster) is None


async def test_a_node_lock_of_another_holder_is_not_released(cluster):
    await cluster.node("n1")
    await put(cluster, "2027-01-15T08:00:00Z")
    await NodeLocks(cluster.client, cluster.client.now).release("n1", LOCK, "2027-01-15T08:00:01Z")
    assert await value(cluster) == "2027-01-15T08:00:00Z"


@pytest.mark.parametrize(("age", "is_taken"), [(0, False), (300, False), (301, True)])
async def test_a_node_lock_is_taken_over_only_after_five_minutes(cluster, monkeypatch, age, is_taken):
    now = 1_800_000_000.0
    monkeypatch.setattr(nodelocks, "PATIENCE_SECONDS", 0.0)
    await cluster.node("n1")
    await put(cluster, at(now - age))
    with contextlib.nullcontext() if is_taken else pytest.raises(LockHeld):
        await NodeLocks(cluster.client, lambda: now).take("n1", LOCK, always)
    assert await value(cluster) == at(now if is_taken else now - age)


async def test_two_schedulers_never_hold_a_node_lock_together(cluster):
    """Each holder finds nobody inside; all get their turn, as the agent releases it."""
    await cluster.node("n1")
    inside = most = done = 0

    async def hold(locks):
        nonlocal inside, most, done
        held = await locks.take("n1", LOCK, always)
        inside += 1
        most = max(most, inside)
        await asyncio.sleep(0.02)
        inside -= 1
        await locks.release("n1", LOCK, held)
        done += 1

    ours, theirs = (NodeLocks(cluster.client, cluster.client.now) for _ in range(2))
    async with asyncio.TaskGroup() as group:
        for locks in (ours, ours, theirs, theirs):
            group.create_task(hold(locks))
    assert (most, done) == (1, 4)


async def test_waiting_for_a_node_lock_ends_when_the_pod_is_deleted(cluster):
    await cluster.node("n1")
    await put(cluster, at(cluster.client.now()))
    looks = iter([True, True, False])
    with pytest.raises(LockHeld, match="gone"):
        await NodeLocks(cluster.client, cluster.client.now).take("n1", LOCK, lambda: next(looks))


@contextlib.asynccontextmanager
async def binding(cluster, *preparations, refused=0):
    """A binder that binds the pods of gang g to n1, each with its preparation; `refused`: so many are not bound."""
    await cluster.node("n1")
    await cluster.gang("g", len(preparations))
    cache, metrics = Cache(), SchedulerMetrics(CollectorRegistry())
    cache.node_changed(None, msgspec.convert(await cluster.client.get(NODES, NODE), records.Node, strict=False))
    uids = []
    for i in range(len(preparations)):
        pod = msgspec.convert(await cluster.client.get(PODS, Key("default", f"g-w-{i}")), records.Pod, strict=False)
        cache.pod_changed(None, pod)
        uids.append(pod.metadata.uid)
    parts = cluster.client, cache, EventRecorder(cluster.client, "test"), metrics
    binder = Binder(*parts, refused=lambda _task, _why: None, lock=lambda _node: ("", 0.0))
    cluster.server.forget_requests()
    for _ in range(refused):
        cluster.server.fail_next("create", "pods", 422)
    async with asyncio.TaskGroup() as group:
        work = group.create_task(binder.run())
        prepared = {uid: (each,) for uid, each in zip(uids, preparations, strict=True)}
        await binder.take(Commit((Binds("default/g", tuple((uid, "n1") for uid in uids), prepared),)), Turn(), session=0.0)
        yield
        work.cancel()


async def bound(cluster):
    return sum(node is not None for node in (await cluster.places("g-")).values())


async def test_pods_that_need_a_node_lock_are_bound_one_after_another_as_the_lock_is_released(cluster):
    async with binding(cluster, Preparation(node_lock=LOCK), Preparation(node_lock=LOCK)):
        await cluster.until(lambda: bound(cluster))
        await asyncio.sleep(0.5)
        assert await bound(cluster) == 1
        await put(cluster, None)

        async def both():
            return await bound(cluster) == 2

        await cluster.until(both)
        assert await value(cluster) is not None


@pytest.mark.parametrize(("refused", "want"), [(0, "group"), (1, "group"), (2, "group"), (3, None)])
async def test_shared_writes_of_a_gang_are_undone_only_if_no_pod_is_bound(cluster, refused, want):
    patch, undo = ({"metadata": {"annotations": {LOCK: text}}} for text in ("group", None))
    shared = Preparation(writes=(Write(NODES, NODE, patch, undo, is_shared=True),))
    async with binding(cluster, shared, shared, shared, refused=refused):

        async def is_over():
            return cluster.server.requests()["create", "pods"] >= 3

        async def is_as_wanted():
            return (await bound(cluster), await value(cluster)) == (3 - refused, want)

        await cluster.until(is_over)
        await cluster.until(is_as_wanted)
        await asyncio.sleep(0.3)
        assert await is_as_wanted()


async def test_a_failed_bind_releases_the_node_lock(cluster):
    wrong = Write(PODS, Key("default", "nobody"), {"metadata": {"annotations": {"a": "b"}}})
    async with binding(cluster, Preparation(writes=(wrong,), node_lock=LOCK)):

        async def is_free():
            return cluster.server.requests()["patch", "nodes"] == 2 and await value(cluster) is None

        await cluster.until(is_free)
    assert await bound(cluster) == 0
