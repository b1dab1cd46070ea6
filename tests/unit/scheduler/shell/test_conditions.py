"""When pods say why they wait: once it has stood for a while, and of a gang that a Job still makes only after long."""

import asyncio
from collections import Counter

import msgspec
import pytest

from pyroclast.api import records
from pyroclast.api.types import PODS, Key
from pyroclast.kube.events.recorder import EventRecorder
from pyroclast_scheduler.cache.cache import Cache
from pyroclast_scheduler.session.outcome import Outcome, WaitingTask
from pyroclast_scheduler.shell.writer import Writer

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
async def test_a_reason_is_written_when_it_has_stood(cluster, members, maker, silent, told):
    await cluster.gang("g", 1, minimum=2)
    cache, times = Cache(), Counter(now=1000.0)
    group = msgspec.convert(await cluster.group("g"), records.PodGroup)
    if maker:
        owner = records.meta.OwnerReference(
            api_version="batch.volcano.sh/v1alpha1", kind=maker, name="j", uid="u", controller=True
        )
        group = msgspec.structs.replace(group, metadata=msgspec.structs.replace(group.metadata, owner_references=(owner,)))
    cache.group_changed(None, group)
    pod = msgspec.convert(await cluster.client.get(PODS, Key("default", "g-w-0")), records.Pod, strict=False)
    cache.pod_changed(None, pod)
    waiting = WaitingTask(cache.tasks[pod.metadata.uid], "Unschedulable", "why", members=members)
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
    writing.cancel()
    await asyncio.wait([writing])
