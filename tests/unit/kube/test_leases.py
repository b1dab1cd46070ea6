from __future__ import annotations

import asyncio
import copy
import random
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from typing import Any, cast

import looptime as virtual
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pyroclast.api.types import Key, ResourceType
from pyroclast.kube.basics.deadline import Deadline
from pyroclast.kube.basics.errors import AlreadyExists, Conflict, ConnectionFailed, KubeError, NotFound
from pyroclast.kube.http.client import Client
from pyroclast.kube.lease.lease import LeaseLost, first_answer
from pyroclast.kube.lease.record import LeaseView, Watcher, held_by, released
from pyroclast.kube.lease.shards import ShardLeases, shard_of
from tests.counts import examples
from tests.unit.ending import ended

pytestmark = pytest.mark.looptime


def now() -> float:
    return asyncio.get_running_loop().time()


class Book:
    """The Leases of an API server in memory, with its optimistic concurrency; `fault` is asked before and after each request."""

    def __init__(self) -> None:
        self.leases: dict[Key, dict[str, Any]] = {}
        self.version = 0
        self.writes = 0

    def as_seen_by(self, fault: Callable[[], Awaitable[None]] | None = None) -> Client:
        return cast("Client", _Connection(self, fault))


class _Connection:
    def __init__(self, book: Book, fault: Callable[[], Awaitable[None]] | None) -> None:
        self._book = book
        self._fault = fault

    @asynccontextmanager
    async def _exchange(self, deadline: Deadline) -> AsyncIterator[None]:
        try:
            async with asyncio.timeout_at(deadline.at):
                if self._fault is not None:
                    await self._fault()
                yield
                if self._fault is not None:
                    await self._fault()
        except TimeoutError:
            raise ConnectionFailed("no answer in time") from None

    async def get(self, kind: ResourceType, key: Key, *, deadline: Deadline) -> dict[str, Any]:
        async with self._exchange(deadline):
            if key not in self._book.leases:
                raise NotFound(404, "NotFound", "no")
            return copy.deepcopy(self._book.leases[key])

    async def create(self, kind: ResourceType, body: dict[str, Any], *, deadline: Deadline) -> dict[str, Any]:
        return await self._write(body, deadline, creating=True)

    async def update(self, kind: ResourceType, body: dict[str, Any], *, deadline: Deadline) -> dict[str, Any]:
        return await self._write(body, deadline, creating=False)

    async def _write(self, body: dict[str, Any], deadline: Deadline, *, creating: bool) -> dict[str, Any]:
        key = Key(body["metadata"]["namespace"], body["metadata"]["name"])
        async with self._exchange(deadline):
            found = self._book.leases.get(key)
            if creating and found is not None:
                raise AlreadyExists(409, "AlreadyExists", "there")
            if found is None and not creating:
                raise NotFound(404, "NotFound", "no")
            if found is not None and found["metadata"]["resourceVersion"] != body["metadata"]["resourceVersion"]:
                raise Conflict(409, "Conflict", "changed")
            self._book.version += 1
            self._book.writes += 1
            stored = copy.deepcopy(body)
            stored["metadata"]["resourceVersion"] = str(self._book.version)
            self._book.leases[key] = stored
            return copy.deepcopy(stored)


class Work:
    """Notes when who led which shard. The work of a second leader of a shard fails."""

    def __init__(self) -> None:
        self.leading: dict[int, str] = {}
        self.spans: list[tuple[str, int, float, float]] = []

    def of(self, name: str, stop_seconds: float = 0.0) -> Callable[[int], Awaitable[None]]:
        async def lead(shard: int) -> None:
            assert shard not in self.leading, f"{name} and {self.leading[shard]} lead shard {shard} at {now()}"
            self.leading[shard] = name
            began = now()
            try:
                await asyncio.Event().wait()
            finally:
                try:
                    await asyncio.sleep(stop_seconds)
                finally:
                    del self.leading[shard]
                    self.spans.append((name, shard, began, now()))

        return lead


def candidate(book: Book, name: str, fault: Callable[[], Awaitable[None]] | None = None, **options: Any) -> ShardLeases:
    clock_skew = options.pop("skew", timedelta())
    return ShardLeases(
        book.as_seen_by(fault),
        "lock",
        "ns",
        name,
        now=lambda: datetime(2026, 1, 1, tzinfo=UTC) + timedelta(seconds=now()) + clock_skew,
        **options,
    )


@pytest.mark.parametrize("moment", [0.0, 0.5, 1.0, 1.5])
async def test_a_lease_is_taken_over_within_one_retry_period_when_its_leader_stops(moment: float) -> None:
    book, work = Book(), Work()
    first = asyncio.ensure_future(candidate(book, "a").run(work.of("a")))
    await asyncio.sleep(0.1)
    second = asyncio.ensure_future(candidate(book, "b").run(work.of("b")))
    await asyncio.sleep(60 + moment)
    assert work.leading == {0: "a"}
    first.cancel()
    await asyncio.sleep(2)  # at most one retry period
    assert work.leading == {0: "b"}
    spec = book.leases[Key("ns", "lock")]["spec"]
    assert (spec["holderIdentity"], spec["leaseTransitions"], spec["leaseDurationSeconds"]) == ("b", 1, 15)
    assert spec["renewTime"].endswith("Z")
    await ended(first, second)
    assert book.leases[Key("ns", "lock")]["spec"]["holderIdentity"] == ""


@pytest.mark.parametrize("skew", [timedelta(hours=-5), timedelta(), timedelta(hours=5)])
async def test_the_lease_of_a_dead_holder_is_taken_over_on_expiry_despite_clock_skew(skew: timedelta) -> None:
    book, work = Book(), Work()
    book.leases[Key("ns", "lock")] = {
        "metadata": {"namespace": "ns", "name": "lock", "resourceVersion": "0"},
        "spec": {
            "holderIdentity": "dead",
            "leaseDurationSeconds": 20,
            "renewTime": "2026-01-01T00:00:00.000000Z",
            "leaseTransitions": 4,
        },
    }
    running = asyncio.ensure_future(candidate(book, "a", skew=skew).run(work.of("a")))
    await asyncio.sleep(19.9)
    assert work.leading == {}
    await asyncio.sleep(3)
    assert work.leading == {0: "a"}
    assert book.leases[Key("ns", "lock")]["spec"]["leaseTransitions"] == 5
    await ended(running)


async def test_a_disconnected_leader_stops_before_another_replica_takes_over() -> None:
    book, work = Book(), Work()
    off = False

    async def fault() -> None:
        if off:
            raise ConnectionFailed("cut off")

    first = asyncio.ensure_future(candidate(book, "a", fault).run(work.of("a", stop_seconds=3.0)))
    await asyncio.sleep(1)
    second = asyncio.ensure_future(candidate(book, "b").run(work.of("b")))
    await asyncio.sleep(30)
    off = True
    cut_at = now()
    with pytest.raises(LeaseLost, match="not renewed for 10 s"):
        await first
    await asyncio.sleep(20)
    assert work.leading == {0: "b"}
    name, _, _, stopped = work.spans[0]
    assert name == "a"
    assert stopped - cut_at <= 10 + 2 + 3
    await ended(second)


async def test_a_lease_lost_in_a_stall_is_free_for_the_next_start_of_its_holder() -> None:
    book, work = Book(), Work()
    is_stalled = False

    async def fault() -> None:
        if is_stalled:
            raise ConnectionFailed("stalled")

    async def until_lost(_: int) -> None:
        nonlocal is_stalled
        await asyncio.sleep(30)
        is_stalled = True
        try:
            await asyncio.sleep(1000)
        finally:
            is_stalled = False

    with pytest.raises(LeaseLost, match="not renewed for 10 s"):
        await candidate(book, "a", fault).run(until_lost)
    restarted = asyncio.ensure_future(candidate(book, "b").run(work.of("b")))
    await asyncio.sleep(0.1)
    assert work.leading == {0: "b"}, "it need not wait for the expiry"
    await ended(restarted)


class Faults:
    """What goes wrong with requests for a while; `met` counts how often it did."""

    def __init__(self) -> None:
        self.requests = self.met = 0

    async def away(self) -> None:
        if 30.0 <= now() < 37.0:
            self.met += 1
            raise ConnectionFailed("away")

    async def hanging_once(self) -> None:
        if now() > 30 and not self.met:
            self.met += 1
            await asyncio.sleep(1000)

    async def losing_answers(self) -> None:
        self.requests += 1
        if self.requests % 6 == 0:  # after a write was stored
            self.met += 1
            raise ConnectionFailed("answer lost")


@pytest.mark.parametrize("fault", [Faults.away, Faults.hanging_once, Faults.losing_answers])
async def test_faults_within_the_renew_deadline_do_not_lose_the_lease(fault: Callable[[Faults], Awaitable[None]]) -> None:
    book, work, faults = Book(), Work(), Faults()
    running = asyncio.ensure_future(candidate(book, "a", lambda: fault(faults)).run(work.of("a")))
    await asyncio.sleep(200)
    assert faults.met
    assert work.leading == {0: "a"}
    assert work.spans == []
    await ended(running)


@pytest.mark.parametrize("seconds", [1.0, 3.0, 4.0, 4.8])
async def test_a_server_that_answers_slowly_does_not_cost_the_lease(seconds: float) -> None:
    """A question is not given up because its answer takes longer than a third of the deadline: the next would take as long."""
    book, work = Book(), Work()
    slow = False

    async def fault() -> None:
        await asyncio.sleep(seconds / 2 if slow else 0.0)

    running = asyncio.ensure_future(candidate(book, "a", fault).run(work.of("a")))
    await asyncio.sleep(30)
    slow = True
    await asyncio.sleep(200)
    assert work.spans == []
    assert book.writes > 15 + 200 / max(seconds, 2.0) - 5
    await ended(running)


@pytest.mark.parametrize("holder", ["thief", ""])
async def test_a_lease_changed_by_another_writer_is_lost_and_not_overwritten(holder: str) -> None:
    book, work = Book(), Work()
    running = asyncio.ensure_future(candidate(book, "a").run(work.of("a")))
    await asyncio.sleep(1)
    lease = book.leases[Key("ns", "lock")]
    lease["spec"]["holderIdentity"] = holder
    lease["metadata"]["resourceVersion"] = "77"
    with pytest.raises(LeaseLost, match="thief" if holder else "given up"):
        await running
    assert lease["metadata"]["resourceVersion"] == "77"
    assert work.leading == {}


async def test_a_lease_that_is_deleted_is_lost() -> None:
    book, work = Book(), Work()
    running = asyncio.ensure_future(candidate(book, "a").run(work.of("a")))
    await asyncio.sleep(1)
    book.leases.clear()
    with pytest.raises(LeaseLost, match="deleted"):
        await running


async def test_an_error_of_the_work_is_raised_and_the_lease_is_released() -> None:
    book = Book()

    async def fail(shard: int) -> None:
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        await candidate(book, "a").run(fail)
    assert book.leases[Key("ns", "lock")]["spec"]["holderIdentity"] == ""


async def test_a_lease_is_released_when_the_work_returns() -> None:
    book = Book()
    leases = candidate(book, "a")

    async def work(shard: int) -> None:
        assert leases.held == {shard}
        await asyncio.sleep(5)

    await leases.run(work)
    assert leases.held == frozenset()
    assert book.leases[Key("ns", "lock")]["spec"]["holderIdentity"] == ""


async def test_shards_have_one_lease_each_and_are_shared_evenly_between_replicas() -> None:
    book, work = Book(), Work()
    first = asyncio.ensure_future(candidate(book, "a", shards=4).run(work.of("a")))
    second = asyncio.ensure_future(candidate(book, "b", shards=4).run(work.of("b")))
    await asyncio.sleep(60)
    assert sorted(key.name for key in book.leases) == ["lock-0", "lock-1", "lock-2", "lock-3"]
    assert sorted(work.leading.values()) == ["a", "a", "b", "b"]
    first.cancel()
    await asyncio.sleep(5)
    assert work.leading == dict.fromkeys(range(4), "b")
    await ended(first, second)


async def test_a_replica_that_joins_later_receives_an_even_share_of_the_shards() -> None:
    book, work = Book(), Work()
    first = asyncio.ensure_future(candidate(book, "a", shards=4).run(work.of("a")))
    await asyncio.sleep(60)
    assert work.leading == dict.fromkeys(range(4), "a")
    second = asyncio.ensure_future(candidate(book, "b", shards=4).run(work.of("b")))
    await asyncio.sleep(60)
    assert sorted(work.leading.values()) == ["a", "a", "b", "b"]
    third = asyncio.ensure_future(candidate(book, "c", shards=4).run(work.of("c")))
    await asyncio.sleep(60)
    assert sorted(Counter(work.leading.values()).values()) == [1, 1, 2]
    moves = len(work.spans)
    await asyncio.sleep(600)
    assert len(work.spans) == moves  # and then nothing moves any more
    await ended(first, second, third)


def test_a_lease_duration_below_the_renew_deadline_raises_value_error() -> None:
    with pytest.raises(ValueError, match="renew deadline"):
        ShardLeases(cast("Client", None), "lock", "ns", "a", lease_duration=5)


@settings(max_examples=examples(15))
@given(seed=st.integers(0, 2**32), replicas=st.integers(2, 3), shards=st.integers(1, 2))
def test_a_shard_never_has_two_leaders_at_once(seed: int, replicas: int, shards: int) -> None:
    """Whatever is delayed, lost or cut off: `Work.of` asserts that nobody else leads the shard. Who loses comes back."""
    rng = random.Random(seed)

    async def scenario() -> None:
        book, work = Book(), Work()

        async def replica(name: str) -> None:
            async def fault() -> None:
                luck = rng.random()
                if luck < 0.05:
                    raise ConnectionFailed("lost")
                if luck < 0.1:
                    await asyncio.sleep(rng.uniform(0, 9))
                elif luck < 0.11:
                    await asyncio.sleep(100)

            while True:
                skew = timedelta(seconds=rng.uniform(-1e4, 1e4))
                try:
                    async with asyncio.timeout(rng.uniform(5, 100)):
                        await candidate(book, name, fault, shards=shards, skew=skew).run(
                            work.of(name, stop_seconds=rng.uniform(0, 2))
                        )
                except (LeaseLost, TimeoutError):
                    await asyncio.sleep(rng.uniform(0, 20))

        running = [asyncio.ensure_future(replica(f"r{number}")) for number in range(replicas)]
        await asyncio.sleep(400)
        assert all(not task.done() for task in running), [task.exception() for task in running if task.done()]
        await ended(*running)
        led = sum(end - begin for _, _, begin, end in work.spans)
        assert led > 0.3 * 400 * shards  # and work goes on most of the time

    loop = virtual.new_event_loop(start=0)
    try:
        loop.run_until_complete(scenario())
    finally:
        loop.close()


def test_lease_updates_keep_foreign_fields_and_count_transitions() -> None:
    lease = LeaseView.of(
        {
            "metadata": {"name": "l", "labels": {"a": "b"}, "resourceVersion": "3"},
            "spec": {"holderIdentity": "old", "leaseTransitions": 2, "strategy": "x", "acquireTime": "then"},
        }
    )
    at = datetime(2026, 1, 2, 3, 4, 5, 6000, tzinfo=UTC)
    taken = held_by(lease, "new", 14.2, at)
    assert taken == {
        "metadata": lease.body["metadata"],
        "spec": {
            "holderIdentity": "new",
            "leaseDurationSeconds": 15,
            "leaseTransitions": 3,
            "renewTime": "2026-01-02T03:04:05.006000Z",
            "acquireTime": "2026-01-02T03:04:05.006000Z",
            "strategy": "x",
        },
    }
    renewed = held_by(LeaseView.of(taken), "new", 15, at + timedelta(seconds=2))
    assert (renewed["spec"]["acquireTime"], renewed["spec"]["leaseTransitions"]) == (taken["spec"]["acquireTime"], 3)
    free = released(LeaseView.of(renewed), at)
    assert (free["spec"]["holderIdentity"], free["spec"]["leaseDurationSeconds"]) == ("", 1)


def test_nonsense_in_a_lease_counts_as_unset() -> None:
    lease = LeaseView.of({"spec": {"leaseDurationSeconds": "long", "leaseTransitions": None, "holderIdentity": None}})
    assert (lease.holder, lease.duration, lease.transitions) == ("", 0.0, 0)


def test_expiry_counts_from_the_last_change_that_we_saw() -> None:
    def lease(version: str) -> LeaseView:
        return LeaseView({}, "other", 10.0, 0, version)

    watcher = Watcher(5.0)
    assert not watcher.is_free(lease("1"), "me", 100)
    assert not watcher.is_free(lease("1"), "me", 109)
    assert not watcher.is_free(lease("2"), "me", 109.9)
    assert not watcher.is_free(lease("2"), "me", 119)
    assert watcher.is_free(lease("2"), "me", 120)
    assert watcher.is_free(LeaseView({}, "", 10.0, 0, "3"), "me", 121)
    assert watcher.is_free(LeaseView({}, "me", 10.0, 0, "4"), "me", 121)


def test_a_lease_released_for_a_wanted_replica_is_reserved_for_a_while() -> None:
    watcher = Watcher(5.0)
    handed = LeaseView.of(released(LeaseView({}, "a", 1.0, 0, "1"), datetime(2026, 1, 1, tzinfo=UTC), wanted_by="b"))
    assert (handed.holder, handed.wanted_by) == ("", "b")
    assert watcher.is_free(handed, "b", 100)
    handed = LeaseView(handed.body, "", 1.0, 0, "2", "b")
    assert not watcher.is_free(handed, "c", 100)
    assert watcher.is_free(handed, "c", 105)  # b did not come
    assert "annotations" not in held_by(handed, "c", 15, datetime(2026, 1, 1, tzinfo=UTC))["metadata"]


@pytest.mark.parametrize(
    ("key", "digest"),
    [(Key("", ""), 705468254), (Key("default", "job1"), 4024040065), (Key("ns", "é"), 2138643971)],
)
def test_shards_are_fnv_32a(key: Key, digest: int) -> None:
    """The digests are those of hash/fnv of Go."""
    assert shard_of(key, 2**32) == digest
    assert shard_of(key, 7) == digest % 7
    assert shard_of(key, 1) == 0


def test_the_shards_of_many_keys_are_even() -> None:
    counts = [0] * 8
    for number in range(8000):
        counts[shard_of(Key("ns", f"job-{number}"), 8)] += 1
    assert min(counts) > 800
    assert max(counts) < 1200


async def test_a_lease_to_be_handed_over_is_renewed_until_its_work_has_ended() -> None:
    book, work = Book(), Work()
    first = asyncio.ensure_future(candidate(book, "a", shards=2).run(work.of("a", stop_seconds=40.0)))
    await asyncio.sleep(30)
    second = asyncio.ensure_future(candidate(book, "b", shards=2).run(work.of("b")))
    await asyncio.sleep(90)
    assert sorted(work.leading.values()) == ["a", "b"]
    await ended(first, second)


LOST = ConnectionFailed("lost")
CHANGED = Conflict(409, "Conflict", "changed")


def asked(*script: tuple[float, str | Exception]) -> tuple[Callable[[], Coroutine[None, None, str]], list[str]]:
    """Requests that each take so long and then answer or fail; what became of them."""
    steps, log = iter(script), []

    async def ask() -> str:
        seconds, answer = next(steps)
        log.append("begun")
        try:
            await asyncio.sleep(seconds)
        except asyncio.CancelledError:
            log.append("cancelled")
            raise
        if isinstance(answer, Exception):
            raise answer
        return answer

    return ask, log


@pytest.mark.parametrize(
    ("script", "took", "began", "answer"),
    [
        ([(1, "a")], 1, 0, "a"),
        ([(4, "a"), (9, "b")], 4, 0, "a"),
        ([(99, "a"), (1, "b")], 4, 3, "b"),
        ([(99, "a"), (99, "b"), (1, "c")], 7, 6, "c"),
        ([(8, "a"), (99, "b"), (99, "c")], 8, 0, "a"),
        ([(5, LOST), (3, "b")], 6, 3, "b"),
        ([(6, CHANGED), (6, "b"), (99, "c")], 9, 3, "b"),
    ],
)
async def test_hedged_requests_return_the_first_success_and_cancel_the_rest(
    script: list[tuple[float, str | Exception]], took: float, began: float, answer: str
) -> None:
    ask, log = asked(*script)
    start = asyncio.get_running_loop().time()
    when, found = await first_answer(ask, 3.0, 3)
    assert (asyncio.get_running_loop().time() - start, when - start, found) == (pytest.approx(took), pytest.approx(began), answer)
    ended = sum(seconds <= took - 3.0 * number for number, (seconds, _) in enumerate(script))
    assert log.count("cancelled") == log.count("begun") - ended


@pytest.mark.parametrize(
    ("script", "took", "error"),
    [
        ([(1, LOST)], 1, LOST),
        ([(4, LOST), (4, CHANGED)], 7, CHANGED),
        ([(4, CHANGED), (4, LOST)], 7, CHANGED),
        ([(4, CHANGED), (9, LOST)], 12, CHANGED),
    ],
)
async def test_hedged_requests_that_all_fail_prefer_an_api_error_to_a_lost_connection(
    script: list[tuple[float, str | Exception]], took: float, error: KubeError
) -> None:
    ask, _ = asked(*script)
    start = asyncio.get_running_loop().time()
    with pytest.raises(type(error)) as caught:
        await first_answer(ask, 3.0, 3)
    assert caught.value is error
    assert asyncio.get_running_loop().time() - start == pytest.approx(took)


async def test_cancelling_a_hedged_request_cancels_all_attempts() -> None:
    ask, log = asked((99, "a"), (99, "b"))
    asking = asyncio.ensure_future(first_answer(ask, 3.0, 2))
    await asyncio.sleep(4)
    await ended(asking)
    assert log == ["begun", "begun", "cancelled", "cancelled"]
