"""Binds decided before their node was locked for another job and sent after it: they are dropped, and decided again."""

import asyncio

import msgspec
import pytest
from prometheus_client import CollectorRegistry

from pyroclast.api import records
from pyroclast.api.types import NODES, PODS, Key
from pyroclast.kube.events import EventRecorder
from pyroclast_scheduler.cache.cache import Cache
from pyroclast_scheduler.session.outcome import Binds, Commit
from pyroclast_scheduler.shell.binder import Binder
from pyroclast_scheduler.shell.metrics import SchedulerMetrics


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
async def test_a_bind_that_waits_while_its_node_is_locked(cluster, locked, is_bound):
    await cluster.node("n1")
    await cluster.gang("g", 1)
    cache = Cache()
    cache.node_changed(None, msgspec.convert(await cluster.client.get(NODES, Key("", "n1")), records.Node, strict=False))
    pod = msgspec.convert(await cluster.client.get(PODS, Key("default", "g-w-0")), records.Pod, strict=False)
    cache.pod_changed(None, pod)
    uid = pod.metadata.uid
    binder = Binder(cluster.client, cache, EventRecorder(cluster.client, "test"), SchedulerMetrics(CollectorRegistry()))
    binder.session = 100.0
    await binder.take(Commit((Binds("default/g", ((uid, "n1"),)),)))
    assert cache.tasks[uid].node == "n1", "it is believed to be there while it waits"
    binder.locked = locked

    async def is_settled():
        places = await cluster.places("g-")
        return places["g-w-0"] == "n1" or not cache.tasks[uid].node

    async with asyncio.TaskGroup() as group:
        work = group.create_task(binder.run())
        await cluster.until(is_settled)
        work.cancel()
    assert (await cluster.places("g-"))["g-w-0"] == ("n1" if is_bound else None)
    assert (cache.tasks[uid].node == "n1") is is_bound
