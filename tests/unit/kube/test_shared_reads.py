"""Reads that are shared: asked once for all who ask at about the same time, and never kept for longer."""

import asyncio

import pytest

from pyroclast.kube.basics.errors import NotFound
from pyroclast.kube.http.batches import SharedReads

pytestmark = pytest.mark.looptime


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


async def test_concurrent_reads_of_a_key_send_one_request():
    source = Source()
    shared = reads(source)
    answers = await asyncio.gather(*(shared.get("ab"[number % 2]) for number in range(1000)))
    assert (sorted(source.asked), set(answers)) == (["a", "b"], {"a1", "b2"})


async def test_a_shared_response_expires_and_is_evicted():
    shared = reads(Source())
    assert await shared.get("a") == "a1"
    await asyncio.sleep(0.8)
    assert await shared.get("a") == "a1"
    await asyncio.sleep(0.2)
    assert await shared.get("a") == "a2"
    await asyncio.sleep(2)
    await shared.get("b")
    assert list(shared._entries) == ["b"]


async def test_a_failed_shared_read_raises_and_the_next_read_is_sent_again():
    source = Source()
    shared = reads(source)
    source.fails = True
    with pytest.raises(NotFound):
        await shared.get("a")
    source.fails = False
    assert await shared.get("a") == "a2"
