"""Work on one shard ends without a trace in the others."""

import asyncio

import pytest

from pyroclast.api.types import Key
from pyroclast.kube.lease.shards import Shards
from pyroclast.kube.workqueue.queue import run_workers
from pyroclast.kube.workqueue.sharded_queue import ShardedQueue
from tests.unit.ending import ended

SHARDS = Shards(2)
A, B = (next(key for key in (Key("n", f"j{i}") for i in range(9)) if SHARDS.shard_of(key) == shard) for shard in (0, 1))


@pytest.fixture
def queue():
    return ShardedQueue[Key]("test", shards=2, shard_of=SHARDS.shard_of)


@pytest.mark.looptime
async def test_a_closed_shard_receives_no_work_while_the_other_shard_continues(queue):
    done, held = [], asyncio.Event()

    async def reconcile(key):
        await held.wait()
        done.append(key)

    first, second = (asyncio.create_task(run_workers(queue.open(shard), reconcile, 2)) for shard in (0, 1))
    for key in (A, B):
        queue.add(key)
        queue.add_after(key, 5.0)
    await asyncio.sleep(1)
    first.cancel()
    queue.close(0)
    await asyncio.wait([first])
    held.set()
    await asyncio.sleep(10)
    queue.add(A)
    queue.add_rate_limited(A)
    await asyncio.sleep(10)
    assert (done, len(queue), queue.failures(A)) == ([B, B], 0, 0)
    await ended(second)


@pytest.mark.looptime
async def test_a_reopened_shard_starts_with_an_empty_queue(queue):
    queue.open(0)
    queue.add_rate_limited(A)
    queue.close(0)
    fresh = queue.open(0)
    assert (len(fresh), fresh.delayed, queue.failures(A), queue.longest_standstill()) == (0, 0, 0, 0.0)


def test_giving_up_a_shard_selects_only_the_keys_of_that_shard_to_be_forgotten():
    shards, forgotten = Shards(2), []
    shards.on_give(lambda selected: forgotten.append([key for key in (A, B) if selected(key)]))
    for shard in (0, 1):
        shards.take(shard)
    shards.give(1)
    assert (forgotten, shards.owns(A), shards.owns(B)) == ([[B]], True, False)
