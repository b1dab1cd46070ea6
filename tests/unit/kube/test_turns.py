"""Turns: long work shares the loop, one piece between two looks at what came in, and whoever goes away holds up nobody."""

from __future__ import annotations

import asyncio
from itertools import pairwise

import pytest

from pyroclast.kube.basics.time_slices import Turn, in_turns


class Looks:
    """Counts how often the loop looked at what came in."""

    def __init__(self) -> None:
        self.count = 0

    async def run(self) -> None:
        while True:
            self.count += 1
            await asyncio.sleep(0)


@pytest.fixture
def endless(monkeypatch):
    """Every step takes a whole turn."""
    monkeypatch.setattr(Turn, "is_over", True)


async def test_concurrent_work_takes_turns_with_one_step_per_loop_iteration(endless):
    looks, done = Looks(), []
    note = done.append

    async def work(name: str) -> None:
        async for step in in_turns(range(10)):
            if step:  # the first is at once
                note((looks.count, name))

    looking = asyncio.create_task(looks.run())
    async with asyncio.TaskGroup() as group:
        for name in "abc":
            group.create_task(work(name))
    looking.cancel()
    assert [name for _, name in done] == ["a", "b", "c"] * 9
    assert all(earlier < later for (earlier, _), (later, _) in pairwise(done))


async def test_cancelled_work_does_not_block_the_turns_of_other_work(endless):
    order = []
    note = order.append

    async def work(name: str) -> None:
        async for step in in_turns(range(3)):
            note(f"{name}{step}")

    tasks = {name: asyncio.create_task(work(name)) for name in "abc"}
    await asyncio.sleep(0)
    tasks["a"].cancel()
    tasks["c"].cancel()
    await asyncio.wait(tasks.values())
    assert order == ["a0", "b0", "c0", "b1", "b2"]
    await Turn().next()  # and there are turns afterwards


async def test_short_work_does_not_yield_to_the_event_loop():
    looks = Looks()
    looking = asyncio.create_task(looks.run())
    await asyncio.sleep(0)
    before = looks.count
    assert [item async for item in in_turns("abc")] == ["a", "b", "c"]
    looking.cancel()
    assert looks.count == before


def test_each_event_loop_has_separate_turns(endless):
    async def work() -> list[int]:
        waits = asyncio.create_task(Turn().next())  # left behind where its loop ends
        found = [item async for item in in_turns(range(3))]
        waits.cancel()
        return found

    assert [asyncio.run(work()) for _ in range(2)] == [[0, 1, 2]] * 2
