"""Answers that come later than what the watch has shown since."""

import asyncio

import msgspec
import pytest

from pyroclast.api.enums import PodGroupPhase
from pyroclast.api.records import PodGroup, PodGroupStatus
from pyroclast.api.types import POD_GROUPS, Key
from pyroclast.kube.credentials.config import load_config
from pyroclast.kube.events.recorder import EventRecorder
from pyroclast.kube.http.client import Client
from pyroclast_scheduler.cache.cache import Cache
from pyroclast_scheduler.session.outcome import Outcome
from pyroclast_scheduler.shell.writer import Writer
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
