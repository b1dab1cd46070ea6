from __future__ import annotations

import asyncio
from collections import Counter

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pyroclast.api.types import Key
from pyroclast.kube.basics.errors import Conflict, TooManyRequests
from pyroclast.kube.basics.observer import Observer
from pyroclast.kube.lease.shards import Shards
from pyroclast.kube.workqueue.queue import QueueClosed, WorkQueue, run_workers
from pyroclast.kube.workqueue.sharded_queue import ShardedQueue
from tests.unit.ending import ended

pytestmark = pytest.mark.looptime


@pytest.fixture
async def work() -> WorkQueue[str]:
    return WorkQueue()


async def test_the_work_queue_returns_keys_in_order_without_duplicates(work: WorkQueue[str]) -> None:
    for key in "abacb":
        work.add(key)
    assert len(work) == 3
    assert [await work.get() for _ in range(3)] == ["a", "b", "c"]


async def test_namespaces_take_turns_and_the_keys_of_each_keep_their_order() -> None:
    queue: WorkQueue[Key] = WorkQueue()
    many = [Key("many", str(number)) for number in range(10_000)]
    for key in (*many, Key("one", "a"), Key("two", "a"), Key("one", "b")):
        queue.add(key)
    assert len(queue) == len(many) + 3
    found = []
    for _ in range(8):
        found.append(await queue.get())
        queue.done(found[-1])
    assert found == [*many[:1], Key("one", "a"), Key("two", "a"), many[1], Key("one", "b"), *many[2:5]]
    queue.add(Key("late", "a"))
    assert [await queue.get(), await queue.get()] == [many[5], Key("late", "a")]


async def test_a_key_added_while_in_work_is_returned_again_after_done(work: WorkQueue[str]) -> None:
    work.add("a")
    assert await work.get() == "a"
    work.add("a")
    work.add("a")
    assert len(work) == 0
    work.done("a")
    assert len(work) == 1
    assert await work.get() == "a"
    work.done("a")
    assert len(work) == 0


async def test_caught_up_drops_additions_since_the_work_began_and_delays_due_soon(work: WorkQueue[str]) -> None:
    work.add("a")
    assert await work.get() == "a"
    work.add("a")
    work.add_after("a", 0.02)
    work.caught_up("a", within=0.02)
    assert work.delayed == 0
    work.add_after("a", 5)
    work.caught_up("a", within=0.02)
    work.done("a")
    assert (len(work), work.delayed) == (0, 1)


async def test_a_key_added_after_caught_up_is_returned_again(work: WorkQueue[str]) -> None:
    work.add("a")
    assert await work.get() == "a"
    work.caught_up("a")
    work.add("a")
    work.done("a")
    assert await work.get() == "a"


async def test_delayed_keys_are_returned_at_their_earliest_due_time(looptime) -> None:
    queue: WorkQueue[str] = WorkQueue(now=lambda: 1000.0 + looptime_now())
    queue.add_after("late", 10)
    queue.add_after("late", 20)  # the earliest wish counts
    queue.add_after("soon", 30)
    queue.add_after("soon", 5)
    queue.add_at("at", 1007.0)
    queue.add_after("now", 0)
    assert queue.delayed == 3
    found = []
    for _ in range(4):
        key = await queue.get()
        found.append((key, looptime_now()))
        queue.done(key)
    assert found == [("now", 0), ("soon", 5), ("at", 7), ("late", 10)]
    await asyncio.sleep(60)
    assert len(queue) == 0


def looptime_now() -> float:
    return asyncio.get_running_loop().time()


async def test_rate_limited_retries_back_off_until_the_key_is_forgotten(looptime) -> None:
    queue: WorkQueue[str] = WorkQueue(first_delay=1.0, longest_delay=5.0)
    times = []
    for _ in range(5):
        queue.add_rate_limited("a")
        queue.done(await queue.get())
        times.append(looptime_now())
    assert times == [1, 3, 7, 12, 17]
    assert queue.failures("a") == 5
    queue.forget("a")
    queue.add_rate_limited("a")
    await queue.get()
    assert looptime_now() == 18


async def test_a_closed_queue_returns_its_queued_keys_and_then_raises_queue_closed(work: WorkQueue[str], looptime) -> None:
    work.add("a")
    work.add_after("never", 1)
    work.close()
    work.add("b")
    work.add_after("c", 1)
    assert await work.get() == "a"
    with pytest.raises(QueueClosed):
        await work.get()


async def test_closing_the_queue_wakes_a_waiting_get_with_queue_closed(work: WorkQueue[str]) -> None:
    waiting = asyncio.ensure_future(work.get())
    await asyncio.sleep(1)
    work.close()
    with pytest.raises(QueueClosed):
        await waiting


async def test_a_cancelled_get_loses_no_key(work: WorkQueue[str]) -> None:
    first, second = asyncio.ensure_future(work.get()), asyncio.ensure_future(work.get())
    await asyncio.sleep(0)
    work.add("a")
    first.cancel()  # it has been woken already
    assert await second == "a"
    assert first.cancelled()


async def test_longest_standstill_is_the_longest_time_without_progress_of_a_key_in_work(work: WorkQueue[str]) -> None:
    assert work.longest_standstill() == 0.0
    work.add("a")
    await work.get()
    await asyncio.sleep(30)
    work.add("b")
    await work.get()
    assert work.longest_standstill() == 30.0
    work.gets_on("a")
    work.gets_on("nobody works on it")
    await asyncio.sleep(5)
    assert work.longest_standstill() == 5.0
    work.done("a")
    work.done("b")
    assert work.longest_standstill() == 0.0


class Watched(Observer):
    def __init__(self) -> None:
        self.finishes: list[tuple[float, bool]] = []
        self.waits: list[float] = []

    def started(self, queue: str, waited: float) -> None:
        self.waits.append(waited)

    def finished(self, queue: str, worked: float, failed: bool) -> None:
        self.finishes.append((worked, failed))


async def test_workers_retry_what_fails_and_go_on_with_the_rest(looptime) -> None:
    watched = Watched()
    queue: WorkQueue[str] = WorkQueue("jobs", first_delay=1.0, observer=watched)
    tries: Counter[str] = Counter()

    async def reconcile(key: str) -> None:
        tries[key] += 1
        await asyncio.sleep(0.5)
        if key == "conflict" and tries[key] < 3:
            raise Conflict(409, "Conflict", "changed")
        if key == "crash" and tries[key] < 2:
            raise ZeroDivisionError

    for key in ("conflict", "crash", "fine"):
        queue.add(key)
    working = asyncio.ensure_future(run_workers(queue, reconcile, 2))
    await asyncio.sleep(20)
    assert tries == {"conflict": 3, "crash": 2, "fine": 1}
    assert queue.failures("conflict") == queue.failures("crash") == 0
    assert sorted(watched.finishes) == [(0.5, False)] * 3 + [(0.5, True)] * 3
    assert watched.waits[:3] == [0.0, 0.0, 0.5]
    queue.close()
    await working


async def test_retries_requested_within_reconcile_keep_their_growing_backoff() -> None:
    queue: WorkQueue[str] = WorkQueue(first_delay=1.0)
    times = []

    async def reconcile(key: str) -> None:
        times.append(looptime_now())
        queue.add_rate_limited(key)

    queue.add("a")
    working = asyncio.ensure_future(run_workers(queue, reconcile, 1))
    await asyncio.sleep(8)
    working.cancel()
    assert times == [0, 1, 3, 7]


async def test_a_key_is_retried_after_retry_after_plus_the_backoff() -> None:
    queue: WorkQueue[str] = WorkQueue(first_delay=1.0)
    times = []

    async def reconcile(key: str) -> None:
        times.append(looptime_now())
        if len(times) < 3:
            raise TooManyRequests(429, "TooManyRequests", "slower", retry_after=10.0)

    queue.add("a")
    working = asyncio.ensure_future(run_workers(queue, reconcile, 1))
    await asyncio.sleep(30)
    working.cancel()
    assert times == [0, 11, 23]


async def test_cancelling_the_workers_cancels_the_work(work: WorkQueue[str]) -> None:
    ended = []

    async def reconcile(key: str) -> None:
        try:
            await asyncio.sleep(100)
        finally:
            ended.append(key)

    work.add("a")
    work.add("b")
    working = asyncio.ensure_future(run_workers(work, reconcile, 4))
    await asyncio.sleep(1)
    working.cancel()
    with pytest.raises(asyncio.CancelledError):
        await working
    assert sorted(ended) == ["a", "b"]
    assert work.longest_standstill() == 0.0, "nothing is in work any more"


@settings(max_examples=40)
@given(
    steps=st.lists(st.tuples(st.sampled_from("abc"), st.floats(0, 3), st.floats(0, 3)), max_size=30),
    workers=st.integers(1, 4),
)
def test_no_key_is_worked_on_twice_at_once_and_no_change_is_missed(steps: list[tuple[str, float, float]], workers: int) -> None:
    """Each change is followed by the beginning of a work on its key."""
    import looptime

    async def scenario() -> None:
        loop = asyncio.get_running_loop()
        queue: WorkQueue[str] = WorkQueue(first_delay=0.1)
        active: set[str] = set()
        begun: dict[str, float] = {}
        changed: dict[str, float] = {}
        durations = dict.fromkeys("abc", 0.5)
        calls = 0

        async def reconcile(key: str) -> None:
            nonlocal calls
            calls += 1
            assert key not in active
            active.add(key)
            begun[key] = loop.time()
            await asyncio.sleep(durations[key])
            active.discard(key)
            if calls % 3 == 0:
                raise Conflict(409, "Conflict", "changed")

        working = asyncio.ensure_future(run_workers(queue, reconcile, workers))
        for key, pause, duration in steps:
            await asyncio.sleep(pause)
            durations[key] = duration
            changed[key] = loop.time()
            queue.add(key)
        await asyncio.sleep(200)
        assert all(begun[key] >= when for key, when in changed.items())
        assert not active
        queue.close()
        await working

    loop = looptime.new_event_loop(start=0)
    try:
        loop.run_until_complete(scenario())
    finally:
        loop.close()


async def test_replaced_delays_of_a_key_do_not_accumulate_timers(work: WorkQueue[str]) -> None:
    for _ in range(2000):
        work.add_after("job", 3600.0)
        work.add_after("job", 1.0)
        await asyncio.sleep(1.0)
        assert await work.get() == "job"
        work.done("job")
    work.add_after("job", 3600.0)
    assert work.delayed == 1
    assert len(work._timers) < 100
    await asyncio.sleep(3599.0)
    assert len(work) == 0
    await asyncio.sleep(1.0)
    assert len(work) == 1


SHARDS = Shards(2)
A, B = (next(key for key in (Key("n", f"j{i}") for i in range(9)) if SHARDS.shard_of(key) == shard) for shard in (0, 1))


@pytest.fixture
def queue():
    return ShardedQueue[Key]("test", shards=2, shard_of=SHARDS.shard_of)


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
