"""Reads that are shared: asked once for all who ask at about the same time, and never kept for longer."""

import asyncio

import looptime
import pytest

from pyroclast.kube.basics.errors import NotFound
from pyroclast.kube.http.shared_reads import SharedReads


def in_virtual_time(scenario):
    with asyncio.Runner(loop_factory=lambda: looptime.patch_event_loop(asyncio.new_event_loop(), start=0)) as runner:
        return runner.run(scenario())


class Source:
    def __init__(self):
        self.asked = []
        self.fails = False

    async def ask(self, key):
        self.asked.append(key)
        answer = f"{key}{len(self.asked)}"
        await asyncio.sleep(0.1)
        if self.fails:
            raise NotFound(404, "NotFound", key)
        return answer


def reads(source, seconds=1.0):
    return SharedReads(source.ask, asyncio.get_running_loop().time, seconds)


def test_a_thousand_at_the_same_time_ask_once_for_each_key():
    async def scenario():
        source = Source()
        shared = reads(source)
        answers = await asyncio.gather(*(shared.get("ab"[number % 2]) for number in range(1000)))
        return sorted(source.asked), set(answers)

    assert in_virtual_time(scenario) == (["a", "b"], {"a1", "b2"})


def test_an_answer_grows_old_and_is_not_kept():
    async def scenario():
        source = Source()
        shared = reads(source)
        first = await shared.get("a")
        await asyncio.sleep(0.8)
        again = await shared.get("a")
        await asyncio.sleep(0.2)
        later = await shared.get("a")
        await asyncio.sleep(2)
        await shared.get("b")
        return first, again, later, list(shared._entries)

    assert in_virtual_time(scenario) == ("a1", "a1", "a2", ["b"])


def test_a_failure_is_told_to_who_asked_and_the_next_tries_again():
    async def scenario():
        source = Source()
        shared = reads(source)
        source.fails = True
        with pytest.raises(NotFound):
            await shared.get("a")
        source.fails = False
        return await shared.get("a")

    assert in_virtual_time(scenario) == "a2"
