"""When something is written: after it has stood for a while, not too often, and first what lets pods start."""

from __future__ import annotations

import asyncio
from itertools import pairwise

import pytest

from pyroclast.api.enums import PodGroupPhase
from pyroclast.lifecycle.gang.groups import GroupStatus
from pyroclast_scheduler.cache.cache import Cache
from pyroclast_scheduler.session.outcome import Outcome
from pyroclast_scheduler.shell.debounce import Debounce
from pyroclast_scheduler.shell.writer import WORKERS, Writer
from tests.scenarios import objects
from tests.unit.ending import ended
from tests.unit.scheduler.shell.test_native_conditions import Silent

RUNNING, INQUEUE = GroupStatus(phase=PodGroupPhase.RUNNING, running=1), GroupStatus(phase=PodGroupPhase.INQUEUE)


class SlowServer:
    """Answers each patch after a second. `patched`: the names of the objects, in the order of the requests."""

    def __init__(self):
        self.patched = []

    async def patch(self, _kind, key, *_more, **_others):
        self.patched.append(key.name)
        await asyncio.sleep(1)
        return {}


def outcome(names, status):
    return Outcome(seen={f"t/{name}" for name in names}, statuses={f"t/{name}": status for name in names})


@pytest.mark.looptime
async def test_a_busy_writer_lets_groups_in_first_and_delays_other_writes_by_five_seconds_at_most():
    running, early, late = ([f"{name}{i:02}" for i in range(3 * WORKERS)] for name in ("running", "early", "late"))
    cache, server = Cache(), SlowServer()
    cache.queue_changed(None, objects.queue(["q"]))
    for name in (*running, *early, *late):
        cache.group_changed(None, objects.pod_group([name, "q", 1, {"phase": "Pending"}]))
    writer = Writer(server, cache, Silent(), now=asyncio.get_running_loop().time)
    await writer.take(outcome(running, RUNNING))
    await writer.take(outcome(early, INQUEUE))
    writing = asyncio.create_task(writer.run())
    await asyncio.sleep(5.5)
    await writer.take(outcome(late, INQUEUE))
    await asyncio.sleep(20)
    await ended(writing)
    assert server.patched == [*early, *running, *late]


def test_the_latest_value_is_due_once_its_mark_is_unchanged_for_the_hold_time():
    lane = Debounce()
    lane.wish("a", 1, 0.0, hold=1.0, mark="x")
    lane.wish("a", 2, 0.5, hold=1.0, mark="x")
    assert lane.due(0.9) == []
    assert lane.next_due() == 1.0
    assert lane.due(1.0) == [("a", 2)]
    assert lane.next_due() is None


def test_a_repeated_write_request_does_not_break_the_minimum_interval():
    lane = Debounce(shortest=1.0)
    lane.wish("a", 1, 0.0, mark="x")
    assert lane.due(0.0) == [("a", 1)]
    lane.wish("a", 2, 0.1, mark="y")
    lane.wish("a", 2, 0.2, mark="y")
    assert lane.due(0.9) == []
    assert lane.due(1.0) == [("a", 2)]


def test_a_changed_mark_restarts_the_delay_and_a_dropped_write_is_not_sent():
    lane = Debounce()
    lane.wish("a", 1, 0.0, hold=1.0, mark="x")
    lane.wish("a", 2, 0.5, hold=1.0, mark="y")
    lane.wish("b", 3, 0.0, hold=1.0, mark="x")
    lane.drop("b")
    assert lane.due(1.2) == []
    assert lane.due(1.5) == [("a", 2)]


def test_a_key_that_keeps_changing_is_written_ever_more_rarely_up_to_a_limit():
    lane = Debounce(shortest=0.2, longest=2.0)
    now, written = 0.0, []
    for i in range(2000):
        lane.wish("a", i, now, mark=i)
        written += [now for _ in lane.due(now)]
        now += 0.01
    gaps = [round(b - a, 2) for a, b in pairwise(written)]
    assert gaps[0] >= 0.2
    assert all(a <= b + 0.02 for a, b in pairwise(gaps))
    assert max(gaps) <= 2.03
    lane.forget_quiet(now + 10)
    lane.wish("a", 0, now + 10, mark="late")
    assert lane.due(now + 10) == [("a", 0)]


def test_an_urgent_write_does_not_wait_for_the_interval_of_its_key():
    lane = Debounce(shortest=1.0, longest=8.0)
    for now in (0.0, 1.0, 3.0, 7.0):
        lane.wish("a", now, now, mark=now)
        assert lane.due(now) == [("a", now)]
    lane.wish("a", "counts", 7.5, mark="counts")
    assert lane.due(8.0) == []
    lane.wish("a", "phase", 8.0, mark="phase", is_urgent=True)
    assert lane.due(8.0) == [("a", "phase")]


def test_writes_of_one_key_do_not_overtake_each_other():
    lane = Debounce()
    lane.wish("a", 1, 0.0, mark="x")
    assert lane.due(0.0) == [("a", 1)]
    lane.begin("a")
    lane.wish("a", 2, 5.0, mark="y")
    lane.wish("b", 3, 5.0, mark="y")
    assert lane.due(5.0) == [("b", 3)]
    assert lane.next_due() is None
    lane.end("a")
    assert lane.next_due() == 5.0
    assert lane.due(5.0) == [("a", 2)]
