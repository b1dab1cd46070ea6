"""The queue of pods that wait to be created: whole gangs one after the other, and none that is stuck holds up others."""

import asyncio

import pytest

from pyroclast_job_controller.job.creation_queue import PATIENCE_SECONDS, CreationQueue
from tests.unit.ending import ended

pytestmark = pytest.mark.looptime

PLACES = 4


class Making:
    """Gangs that are made in batches which double; a pod takes a second."""

    def __init__(self):
        self.line, self.made, self.started = CreationQueue(PLACES), [], {}
        self.under_way = self.most_under_way = 0

    async def gang(self, name, size, seconds=1.0):
        ticket, done, batch = self.line.ticket(size), 0, 1
        try:
            while done < size:
                await asyncio.gather(*(self.pod(name, ticket, seconds) for _ in range(min(batch, size - done))))
                done, batch = done + batch, batch * 2
        finally:
            self.line.close(ticket)

    async def pod(self, name, ticket, seconds):
        await self.line.enter(ticket)
        self.started.setdefault(name, asyncio.get_running_loop().time())
        self.under_way += 1
        self.most_under_way = max(self.most_under_way, self.under_way)
        try:
            await asyncio.sleep(seconds)
            self.made.append(name)
        finally:
            self.under_way -= 1
            self.line.leave(ticket)


async def test_large_gangs_are_made_one_after_the_other():
    making = Making()
    await asyncio.gather(*(making.gang(name, 20) for name in "abc"))
    ends = {name: 60 - making.made[::-1].index(name) for name in "abc"}
    assert ends["a"] < ends["b"] < ends["c"] == 60
    assert making.made[: ends["a"]].count("b") <= PLACES  # begun when the one before was nearly made
    assert making.made[: ends["b"]].count("c") <= PLACES
    assert making.most_under_way == PLACES


async def test_small_gangs_share_the_creation_slots():
    making = Making()
    await asyncio.gather(*(making.gang(name, 1) for name in "abcdef"))
    assert making.most_under_way == PLACES
    assert asyncio.get_running_loop().time() == pytest.approx(2.0, abs=0.1)


async def test_stuck_gang_delays_another_gang_only_for_patience_seconds():
    making = Making()
    stuck = asyncio.create_task(making.gang("stuck", 20, seconds=1000.0))
    await asyncio.sleep(0)
    await making.gang("other", 3)
    assert making.started["other"] == pytest.approx(PATIENCE_SECONDS, abs=0.1)
    await ended(stuck)
    await making.gang("later", 8)
    assert making.made.count("later") == 8


async def test_cancelled_gang_lets_the_next_gang_start_at_once():
    making = Making()
    failed = asyncio.create_task(making.gang("failed", 20))
    await asyncio.sleep(0.5)
    failed.cancel()
    await making.gang("next", 2)
    assert making.started["next"] == pytest.approx(0.5, abs=0.01)


async def test_waiter_cancelled_at_its_turn_passes_the_slot_to_the_next_waiter():
    line = CreationQueue(1)
    first, second, third = (line.ticket(1) for _ in range(3))
    await line.enter(first)
    waiting = asyncio.create_task(line.enter(second))
    behind = asyncio.create_task(line.enter(third))
    await asyncio.sleep(0)
    line.leave(first)
    waiting.cancel()
    await asyncio.wait_for(behind, 1)
    assert waiting.cancelled()
