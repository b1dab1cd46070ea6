"""The order of writes while all workers are busy: first those that let pods start, and no other waits for long."""

import asyncio

import pytest

from pyroclast.api.enums import PodGroupPhase
from pyroclast.lifecycle.gang.groups import GroupStatus
from pyroclast_scheduler.cache.cache import Cache
from pyroclast_scheduler.session.outcome import Outcome
from pyroclast_scheduler.shell.writer import WORKERS, Writer
from tests.scenarios import objects
from tests.unit.ending import ended

RUNNING, INQUEUE = GroupStatus(phase=PodGroupPhase.RUNNING, running=1), GroupStatus(phase=PodGroupPhase.INQUEUE)


class SlowServer:
    """Answers each patch after a second. `patched`: the names of the objects, in the order of the requests."""

    def __init__(self):
        self.patched = []

    async def patch(self, _kind, key, *_more, **_others):
        self.patched.append(key.name)
        await asyncio.sleep(1)
        return {}


class Silent:
    def event(self, *_, **__):
        """Nobody listens."""


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
