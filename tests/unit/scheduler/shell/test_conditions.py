"""When pods say why they wait: once it has stood for a while, and of a gang that a Job still makes only after long."""

import asyncio
from collections import Counter

import msgspec
import pytest

from pyroclast.api import records
from pyroclast.api.types import PODS, Key
from pyroclast.kube.events.recorder import EventRecorder
from pyroclast_scheduler.cache.cache import Cache
from pyroclast_scheduler.session.outcome import Note, Outcome, WaitingTask
from pyroclast_scheduler.shell.writer import Writer
from tests.unit.ending import ended

KEY = "default/g"


@pytest.mark.parametrize(
    ("members", "maker", "silent", "told"),
    [
        (None, "Job", 0.5, 1.5),
        (1, "", 2.0, 3.0),
        (1, "Job", 29.0, 31.0),
    ],
    ids=["complete", "made-by-somebody", "made-by-a-job"],
)
async def test_pod_waiting_condition_is_written_after_a_delay_longest_for_incomplete_gangs_of_jobs(
    cluster, members, maker, silent, told
):
    await cluster.gang("g", 1, minimum=2)
    (cache, uid), times = await cluster.known("g-w-0"), Counter(now=1000.0)
    group = msgspec.convert(await cluster.group("g"), records.PodGroup)
    if maker:
        owner = records.meta.OwnerReference(
            api_version="batch.volcano.sh/v1alpha1", kind=maker, name="j", uid="u", controller=True
        )
        group = msgspec.structs.replace(group, metadata=msgspec.structs.replace(group.metadata, owner_references=(owner,)))
    cache.group_changed(None, group)
    waiting = WaitingTask(cache.tasks[uid], "Unschedulable", "why", members=members)
    writer = Writer(cluster.client, cache, EventRecorder(cluster.client, "scheduler"), now=lambda: times["now"])
    writing = asyncio.create_task(writer.run())

    async def says():
        found = await cluster.client.get(PODS, Key("default", "g-w-0"))
        return [each["message"] for each in found["status"].get("conditions", []) if each["type"] == "PodScheduled"]

    for passed in (0.0, silent):
        times["now"] = 1000.0 + passed
        await writer.take(Outcome(seen={KEY}, waiting=[waiting]))
        await asyncio.sleep(0.05)
    assert await says() == []
    times["now"] = 1000.0 + told
    await writer.take(Outcome(seen={KEY}, waiting=[waiting]))
    await cluster.until(says)
    await ended(writing)


async def test_pod_that_got_a_node_while_its_condition_waited_to_be_written_is_not_patched(cluster):
    await cluster.node("n0")
    await cluster.gang("g", 1, minimum=1)
    (cache, uid), times = await cluster.known("g-w-0", "n0"), Counter(now=1000.0)
    waiting = WaitingTask(cache.tasks[uid], "Unschedulable", "why")
    writer = Writer(cluster.client, cache, EventRecorder(cluster.client, "scheduler"), now=lambda: times["now"])
    writing = asyncio.create_task(writer.run())
    await writer.take(Outcome(seen={KEY}, waiting=[waiting]))
    assert cache.pods.assume(uid, "n0") is None
    times["now"] += 60.0
    await writer.take(Outcome())
    await asyncio.sleep(0.05)
    status = (await cluster.client.get(PODS, Key("default", "g-w-0")))["status"]
    assert all(each["type"] != "PodScheduled" for each in status.get("conditions", []))
    await ended(writing)


FULL, BEHIND, SHUT = (f"it waits; {code}: not now: it asks for 2 cpu" for code in ("ClusterFull", "BehindAnother", "QueueClosed"))


@pytest.mark.parametrize(
    ("reason", "silent", "told"),
    [(BEHIND, 9.0, 11.0), (SHUT, 0.5, 1.5)],
    ids=["as-a-job-ended", "as-its-queue-was-closed"],
)
async def test_podgroup_condition_changes_only_after_the_new_reason_held_for_its_delay(cluster, reason, silent, told):
    await cluster.gang("g", 1, minimum=2)
    cache, times = Cache(), Counter(now=1000.0)
    cache.group_changed(None, msgspec.convert(await cluster.group("g"), records.PodGroup))
    writer = Writer(cluster.client, cache, EventRecorder(cluster.client, "scheduler"), now=lambda: times["now"])
    writing = asyncio.create_task(writer.run())

    async def session(at, message):
        times["now"] = 1000.0 + at
        condition = records.PodGroupCondition(type="Unschedulable", status="True", reason="NotEnoughResources", message=message)
        status = records.PodGroupStatus(conditions=(condition,))
        note = Note(KEY, "Warning", "Unschedulable", message)
        said = message in await conditions()
        await writer.take(Outcome(seen={KEY}, statuses={} if said else {KEY: status}, notes=[note]))
        await asyncio.sleep(0.05)

    async def conditions():
        found = await cluster.group("g")
        cache.group_changed(None, msgspec.convert(found, records.PodGroup))
        return [each["message"] for each in found.get("status", {}).get("conditions", [])]

    await session(0, FULL)
    await session(2, FULL)
    await cluster.until(conditions)
    for at, message in ((20, reason), (20 + silent, reason), (30, FULL), (40, reason), (40 + silent, reason)):
        await session(at, message)
        assert await conditions() == [FULL]
    await session(40 + told, reason)
    await asyncio.sleep(0.1)
    assert await conditions() == [reason]
    await ended(writing)
