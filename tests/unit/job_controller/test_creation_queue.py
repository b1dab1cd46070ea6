"""The order of pod creations: namespaces take turns, gangs stay whole, and no Job delays the Job of another tenant for long."""

import asyncio
from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pyroclast.kube.http.batches import LARGEST_BATCH
from pyroclast_job_controller.job.creation_queue import PATIENCE_SECONDS, CreationQueue, Owner
from tests.unit.ending import ended

pytestmark = pytest.mark.looptime

PLACES = 4


class Making:
    """Jobs whose pods are made in slices, in batches which double."""

    def __init__(self, waiting=lambda: 0):
        self.line, self.made, self.started, self.slices = CreationQueue(PLACES, waiting), [], {}, Counter()
        self.under_way = self.most_under_way = 0

    async def gang(self, name, size, seconds=1.0, namespace="ns", queue="q", needed=None):
        left, batch = size, 1
        while left:
            self.slices[name] += 1
            gang = max(0, (size if needed is None else needed) - (size - left))
            slice_ = self.line.open(Owner(name, namespace, queue), gang)
            try:
                while left and not slice_.is_over:
                    pods = (self.pod(name, slice_, seconds, is_needed=i < gang) for i in range(min(batch, left)))
                    count = sum(await asyncio.gather(*pods))
                    left, gang, batch = left - count, max(0, gang - count), min(batch * 2, LARGEST_BATCH)
            finally:
                self.line.close(slice_)

    async def pod(self, name, slice_, seconds, *, is_needed):
        if not await self.line.enter(slice_, is_needed=is_needed):
            return 0
        self.started.setdefault(name, asyncio.get_running_loop().time())
        self.under_way += 1
        self.most_under_way = max(self.most_under_way, self.under_way)
        try:
            await asyncio.sleep(seconds)
            self.made.append(name)
        finally:
            self.under_way -= 1
            self.line.leave(slice_, is_needed=is_needed)
        return 1


async def test_large_gangs_of_a_namespace_are_made_one_after_the_other_also_over_many_slices():
    making = Making()
    await asyncio.gather(*(making.gang(name, 100, seconds=0.1) for name in "abc"))
    ends = {name: 300 - making.made[::-1].index(name) for name in "abc"}
    assert min(making.slices.values()) > 1
    assert ends["a"] < ends["b"] < ends["c"] == 300
    assert making.made[: ends["a"]].count("b") <= PLACES  # begun when the one before was nearly made
    assert making.made[: ends["b"]].count("c") <= PLACES
    assert making.most_under_way == PLACES


async def test_small_gangs_share_the_creation_slots():
    making = Making()
    await asyncio.gather(*(making.gang(name, 1, seconds=0.9) for name in "abcdef"))
    assert making.most_under_way == PLACES
    assert asyncio.get_running_loop().time() == pytest.approx(1.8, abs=0.1)


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
    first, second, third = (line.open(Owner(name, name), 1) for name in "abc")
    assert await line.enter(first, is_needed=True)
    waiting = asyncio.create_task(line.enter(second, is_needed=True))
    behind = asyncio.create_task(line.enter(third, is_needed=True))
    await asyncio.sleep(0)
    line.leave(first, is_needed=True)
    waiting.cancel()
    assert await asyncio.wait_for(behind, 1)
    assert waiting.cancelled()


@pytest.mark.parametrize("needed", [1, 20_000], ids=["elastic", "gang"])
async def test_job_of_another_namespace_beside_a_huge_job_has_its_pod_within_two_seconds(needed):
    making = Making()
    huge = asyncio.create_task(making.gang("huge", 20_000, seconds=0.05, namespace="bob", needed=needed))
    await asyncio.sleep(5)
    await making.gang("small", 1, seconds=0.05, namespace="alice")
    assert making.started["small"] < 5.2
    await ended(huge)


async def test_gang_of_the_same_namespace_comes_before_the_elastic_pods_of_an_earlier_job():
    making = Making()
    huge = asyncio.create_task(making.gang("huge", 20_000, seconds=0.05, needed=1))
    await asyncio.sleep(5)
    await making.gang("small", 3, seconds=0.05)
    assert asyncio.get_running_loop().time() < 5.5
    await ended(huge)


async def test_elastic_jobs_take_turns_between_queues_and_between_jobs():
    making = Making()
    jobs = [("a", "q1"), ("b", "q1"), ("c", "q2")]
    running = [asyncio.create_task(making.gang(name, 10_000, seconds=0.1, queue=queue, needed=0)) for name, queue in jobs]
    await asyncio.sleep(60)
    shares = Counter(making.made)
    assert shares["c"] == pytest.approx(sum(shares.values()) / 2, rel=0.15)
    assert shares["a"] == pytest.approx(shares["b"], rel=0.1)
    for each in running:
        await ended(each)


async def test_slices_are_shorter_the_more_jobs_wait_for_a_worker():
    many = Making(waiting=lambda: 60)
    running = asyncio.create_task(many.gang("a", 10_000, seconds=0.01, needed=0))
    await asyncio.sleep(10)
    assert many.slices["a"] == pytest.approx(400, rel=0.2)
    await ended(running)


@given(
    st.lists(
        st.tuples(st.sampled_from("xyz"), st.sampled_from("qr"), st.integers(1, 12), st.integers(0, 12)), min_size=1, max_size=5
    )
)
def test_every_pod_is_created_once_and_no_namespace_waits_while_another_has_two_turns(jobs):
    async def run():
        making = Making()
        spaces = {f"{number}": namespace for number, (namespace, *_) in enumerate(jobs)}
        await asyncio.gather(
            *(
                making.gang(f"{number}", size, seconds=0.2, namespace=namespace, queue=queue, needed=min(size, needed))
                for number, (namespace, queue, size, needed) in enumerate(jobs)
            )
        )
        assert Counter(making.made) == {f"{number}": size for number, (_, _, size, _) in enumerate(jobs)}
        assert making.most_under_way <= PLACES
        firsts = {
            namespace: min(making.started[name] for name in spaces if spaces[name] == namespace) for namespace in spaces.values()
        }
        assert max(firsts.values()) < 1.0

    import looptime

    loop = looptime.new_event_loop()
    try:
        loop.run_until_complete(run())
    finally:
        loop.close()
