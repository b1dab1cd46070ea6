"""Reading one's own writes, whatever the order in which answers and watch events arrive."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pyroclast.api.records import Pod
from pyroclast.api.types import Key
from pyroclast.kube.watch.own_writes import GROUP, LIFETIME, Recent
from pyroclast.kube.watch.store import Store
from tests.unit.lifecycle.builders import decode

KEY = Key("n", "p")


def record(uid, version, label="g"):
    return decode(
        {"metadata": {"namespace": "n", "name": "p", "uid": uid, "resourceVersion": str(version), "labels": {"g": label}}}, Pod
    )


class Clock:
    now = 0.0

    def __call__(self):
        return self.now


def group_of(pod):
    return (pod.metadata.labels["g"],)


@pytest.fixture
def clock():
    return Clock()


@pytest.fixture
def store():
    return Store({GROUP: group_of}, on_error=lambda: None)


@pytest.fixture
def recent(store, clock):
    return Recent(store, clock, group_of)


def test_a_created_object_is_visible_before_the_watch_delivers_it(recent, store):
    recent.put(record("u", 5))
    assert recent.get(KEY) == record("u", 5)
    assert list(recent.members("g").values()) == [record("u", 5)]
    assert recent.is_ahead("g")
    store.put(record("u", 5))
    assert not recent.is_ahead("g")
    assert list(recent.members("g").values()) == [record("u", 5)]


def test_the_newer_of_own_write_and_cached_record_is_returned(recent, store):
    store.put(record("u", 5))
    recent.put(record("u", 4))
    assert recent.get(KEY).metadata.resource_version == "5"
    recent.put(record("u", 7))
    assert recent.get(KEY).metadata.resource_version == "7"
    store.put(record("u", 6))
    assert recent.get(KEY).metadata.resource_version == "7"
    store.put(record("u", 8))
    assert recent.get(KEY).metadata.resource_version == "8"


def test_an_own_deletion_hides_the_object_and_its_replacement_is_visible(recent, store):
    store.put(record("u", 5))
    recent.gone(KEY, "u")
    assert recent.get(KEY) is None
    recent.put(record("v", 9))
    assert recent.get(KEY).metadata.uid == "v"
    store.drop(KEY)
    assert recent.get(KEY).metadata.uid == "v"
    store.put(record("v", 9))
    assert not recent.is_ahead("g")


def test_a_response_that_arrives_after_the_deletion_is_ignored(recent, store):
    store.put(record("u", 5))
    store.drop(KEY)
    recent.put(record("u", 6))
    assert recent.get(KEY) is None


def test_an_own_write_that_the_watch_never_delivers_expires(recent, clock):
    recent.put(record("u", 5))
    clock.now = LIFETIME + 1
    assert recent.get(KEY) is None
    assert list(recent.members("g").values()) == []


EVENTS = st.lists(st.sampled_from(["create", "change", "delete"]), max_size=8)


@given(EVENTS, st.data())
def test_own_writes_equal_the_cache_once_the_watch_has_caught_up(writes, data):
    """Our writes are answered and watched in any order that keeps each of the two in order; a deletion is not answered."""
    answers, watched, uid = [], [], None
    for version, write in enumerate(writes, start=1):
        if write == "create" and uid is None:
            uid = f"u{version}"
            answers.append(record(uid, version))
            watched.append(record(uid, version))
        elif write == "change" and uid is not None:
            answers.append(record(uid, version))
            watched.append(record(uid, version))
        elif write == "delete" and uid is not None:
            uid = None
            watched.append(None)
    held = Store({GROUP: group_of}, on_error=lambda: None)
    seen = Recent(held, lambda: 0.0, group_of)
    assert seen.members("g") == {}
    while answers or watched:
        if watched and (not answers or data.draw(st.booleans())):
            event = watched.pop(0)
            if event is None:
                held.drop(KEY)
            else:
                held.put(event)
        else:
            seen.put(answers.pop(0))
        known = seen.get(KEY)
        assert seen.members("g") == ({} if known is None else {"p": known})
    assert seen.get(KEY) == held.get(KEY)
    assert not seen.is_ahead("g")


def test_only_records_equal_to_an_own_write_are_echoes(recent, store):
    store.put(record("u", 5))
    recent.put(record("u", 6))
    store.put(mine := record("u", 6))
    assert recent.is_echo(mine)
    store.put(theirs := record("u", 7))
    assert not recent.is_echo(theirs)
    recent.put(record("u", 8), is_own=False)
    store.put(read := record("u", 8))
    assert not recent.is_echo(read)
