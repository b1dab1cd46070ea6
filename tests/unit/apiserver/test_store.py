"""The store alone: revisions, history, subscriptions."""

from __future__ import annotations

import asyncio

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pyroclast_standalone.apiserver.storage.store import ADDED, DELETED, MODIFIED, Compacted, Store


def body(name: str, value: int = 0) -> dict[str, object]:
    return {"metadata": {"name": name, "uid": name}, "value": value}


def test_every_commit_is_a_revision() -> None:
    store = Store(revision=10)
    pods = store.collection("pods")
    assert store.put(pods, "n/a", body("a")).revision == 11
    assert store.put(pods, "n/a", body("a", 1)).revision == 12
    assert store.delete(pods, "n/a").revision == 13
    assert [change.kind for change in pods.changes()] == [ADDED, MODIFIED, DELETED]
    assert pods.changes()[-1].current.load()["metadata"]["resourceVersion"] == "13"


def test_keys_are_sorted_as_etcd_sorts_them() -> None:
    store = Store()
    pods = store.collection("pods")
    for key in ("a/x", "a-b/y", "a/b", "b/a"):
        store.put(pods, key, body(key))
    assert [each.key for each in pods.select()] == ["a-b/y", "a/b", "a/x", "b/a"]
    assert [each.key for each in pods.select("a")] == ["a/b", "a/x"]


def test_reading_before_the_oldest_kept_revision_raises_compacted() -> None:
    store = Store(ring_size=3)
    pods = store.collection("pods")
    for number in range(5):
        store.put(pods, "n/a", body("a", number))
    assert pods.oldest == 3
    assert [change.revision for change in pods.since(3)] == [4, 5, 6]
    with pytest.raises(Compacted):
        pods.since(2)
    with pytest.raises(Compacted):
        pods.at(2)


WRITES = st.lists(st.tuples(st.sampled_from("abcd"), st.booleans()), max_size=40)


@given(writes=WRITES)
@settings(max_examples=60)
def test_any_revision_can_be_read_back(writes: list[tuple[str, bool]]) -> None:
    store = Store()
    pods = store.collection("pods")
    states = {store.revision: {}}
    for number, (name, is_delete) in enumerate(writes):
        key = f"n/{name}"
        if is_delete and key in pods.items:
            store.delete(pods, key)
        elif not is_delete:
            store.put(pods, key, body(name, number))
        states[store.revision] = {each.key: each.revision for each in pods.select()}
    for revision, state in states.items():
        assert {each.key: each.revision for each in pods.at(revision)} == state


@given(writes=WRITES, start=st.integers(0, 40))
@settings(max_examples=60)
def test_replaying_a_subscription_from_any_revision_yields_the_current_state(writes: list[tuple[str, bool]], start: int) -> None:
    async def replay() -> None:
        store = Store()
        pods = store.collection("pods")
        state: dict[str, int] = {}
        subscription = None
        for number, (name, is_delete) in enumerate(writes):
            if number == start:
                state = {each.key: each.revision for each in pods.select()}
                subscription = pods.subscribe(store.revision, store.revision, None, 100)
            key = f"n/{name}"
            if is_delete and key in pods.items:
                store.delete(pods, key)
            elif not is_delete:
                store.put(pods, key, body(name, number))
        if subscription is None:
            return
        for change in subscription.pending:
            state.pop(change.current.key, None)
            if change.kind is not DELETED:
                state[change.current.key] = change.revision
        assert state == {each.key: each.revision for each in pods.select()}

    asyncio.run(replay())


class _Slow:
    """A journal that remembers."""

    def __init__(self) -> None:
        self.batches: list[int] = []

    def write(self, batch: object) -> None:
        self.batches.append(len(list(batch)))  # type: ignore[call-overload]


async def test_concurrent_writes_are_journaled_in_one_batch_before_subscribers_get_them() -> None:
    journal = _Slow()
    store = Store(journal=journal)  # type: ignore[arg-type]
    pods = store.collection("pods")
    subscription = pods.subscribe(store.revision, store.revision, None, 10)
    for name in "abc":
        store.put(pods, f"n/{name}", body(name))
    assert not subscription.pending
    await store.durable()
    assert journal.batches == [3]
    assert len(subscription.pending) == 3


async def test_subscription_opened_between_commit_and_journal_gets_each_change_once() -> None:
    store = Store(journal=_Slow())  # type: ignore[arg-type]
    pods = store.collection("pods")
    start = store.revision
    store.put(pods, "n/a", body("a"))
    subscription = pods.subscribe(start, store.revision, None, 10)
    await store.durable()
    assert [change.revision for change in subscription.pending] == [start + 1]


async def test_published_revision_advances_only_after_the_journal_write() -> None:
    store = Store(journal=_Slow())  # type: ignore[arg-type]
    pods = store.collection("pods")
    before = store.revision
    assert store.published == before
    store.put(pods, "n/a", body("a"))
    store.put(pods, "n/b", body("b"))
    assert (store.revision, store.published) == (before + 2, before), "both are on their way to the journal"
    await store.durable()
    assert store.published == store.revision


async def test_a_journal_that_fails_fails_the_write() -> None:
    class Broken:
        def write(self, batch: object) -> None:
            raise OSError("disk full")

    store = Store(journal=Broken())  # type: ignore[arg-type]
    pods = store.collection("pods")
    store.put(pods, "n/a", body("a"))
    with pytest.raises(OSError, match="disk full"):
        await store.durable()
    assert isinstance(store.failure, OSError)


async def test_subscription_is_marked_overrun_when_its_buffer_is_full() -> None:
    store = Store()
    pods = store.collection("pods")
    subscription = pods.subscribe(store.revision, store.revision, None, 2)
    for name in "abc":
        store.put(pods, f"n/{name}", body(name))
    assert subscription.overrun
