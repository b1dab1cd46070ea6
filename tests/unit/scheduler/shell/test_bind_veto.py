"""Binds decided before their node was locked for another job, or went, and sent after it: they are dropped, and decided again."""

import asyncio
import contextlib

import msgspec
import pytest
from prometheus_client import CollectorRegistry

from pyroclast.api import records
from pyroclast.api.types import NODES, PODS, Key
from pyroclast.kube.basics.time_slices import Turn
from pyroclast.kube.events.recorder import EventRecorder
from pyroclast_scheduler.cache.cache import Cache
from pyroclast_scheduler.model.tasks import TaskStatus
from pyroclast_scheduler.session.outcome import Binds, Commit
from pyroclast_scheduler.shell.binder import Binder
from pyroclast_scheduler.shell.metrics import SchedulerMetrics

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
        target = {"apiVersion": "v1", "kind": "Node", "name": "n2"}
        body = {"apiVersion": "v1", "kind": "Binding", "metadata": {"name": "g-w-0"}, "target": target}
        await cluster.client.create(PODS, body, namespace="default", name="g-w-0", subresource="binding")
    assert (cache.tasks[uid].node, cache.tasks[uid].status) == ("n2", TaskStatus.BOUND)
    assert refused == []


@contextlib.asynccontextmanager
async def waiting_bind(cluster, *, refused=lambda _task, _why: None, lock=lambda _node: UNLOCKED):
    """A bind of g-w-0 to n1 that waits while the block lasts; at its end it is sent or dropped, and what came of it is known."""
    await cluster.node("n1")
    await cluster.gang("g", 1)
    cache = Cache()
    cache.node_changed(None, msgspec.convert(await cluster.client.get(NODES, Key("", "n1")), records.Node, strict=False))
    pod = msgspec.convert(await cluster.client.get(PODS, Key("default", "g-w-0")), records.Pod, strict=False)
    cache.pod_changed(None, pod)
    uid = pod.metadata.uid
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
