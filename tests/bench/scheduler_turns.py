"""`python -m tests.bench.scheduler_turns [NAME…]`: how long the scheduler holds its event loop, at three sizes of each work.

A line per work: the longest turn, in milliseconds of CPU of its thread (what other processes take of the core does not count) and
of the clock, and its growth as an exponent. Work that pauses counts from one pause to the next, as the service makes it. Beside a
session, which has a thread of its own, it is by how much the loop comes late, and for how much of that the process was at work.
"""

from __future__ import annotations

import argparse
import asyncio
import gc
import math
import sys
import time
from collections.abc import AsyncIterator, Callable, Coroutine, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from functools import partial

import msgspec

from pyroclast.api import records
from pyroclast.kube.basics.time_slices import Turn
from pyroclast.lean import SWITCH_SECONDS
from pyroclast.runtime.supervisor import measure_lag
from pyroclast_scheduler.cache.cache import Cache
from pyroclast_scheduler.model.snapshot import Snapshot
from pyroclast_scheduler.model.triggers import AnyChange, Room, UnschedulableJob
from pyroclast_scheduler.replay.capture import taken
from pyroclast_scheduler.session.ports import Ports
from pyroclast_scheduler.shell import debug

from .scheduler import pod, queue
from .scheduler_table import FILLING, cluster, cycle, loop, reclaiming, waiting

_AIM = 50.0
_PARTS = 1000  # of the work before a session; what is left of it then is done in one go


@dataclass
class Turns:
    """The longest turn so far, milliseconds."""

    cpu: float = 0.0
    wall: float = 0.0
    _since: tuple[float, float] = field(default=(0.0, 0.0))

    def begin(self) -> None:
        self._since = time.thread_time(), time.perf_counter()

    def end(self) -> None:
        cpu, wall = self._since
        self.cpu = max(self.cpu, (time.thread_time() - cpu) * 1000)
        self.wall = max(self.wall, (time.perf_counter() - wall) * 1000)

    def late(self, late: float, held: float) -> None:
        """The loop came late, as `measure_lag` tells it, in seconds."""
        self.wall, self.cpu = max(self.wall, late * 1000), max(self.cpu, held * 1000)

    @asynccontextmanager
    async def watched(self) -> AsyncIterator[None]:
        """Count what runs inside, without its pauses: another task of the loop ends and begins turns whenever it comes to run."""
        is_over = False

        async def watch() -> None:
            while not is_over:
                self.end()
                self.begin()
                await asyncio.sleep(0)

        self.begin()
        async with asyncio.TaskGroup() as group:
            group.create_task(watch())
            yield
            self.end()
            is_over = True


async def snapshot(cache: Cache) -> Snapshot:
    """What the loop does before a session, as `shell.loop` does it."""
    turn = Turn()
    for _ in range(_PARTS):
        if not cache.prepare():
            break
        if turn.is_over:
            await turn.next()
    return cache.snapshot()


async def assuming(size: int, turns: Turns, *, is_last_gone: bool = False) -> None:
    """A gang is taken as bound, pod by pod with pauses, or taken back if its last pod is gone; the next session begins."""
    cache = cluster(5000)
    waiting(cache, "gang", size, millis=100)
    _, commits = cycle(cache)
    placed = [each for commit in commits for binds in commit.binds for each in binds.placed]
    assert len(placed) == size
    if is_last_gone:
        cache.pod_changed(cache.tasks[placed[-1][0]].pod, None)
    turn, problems = Turn(), []
    async with turns.watched():
        for problem in cache.pods.assuming(placed):
            problems.append(problem)
            if turn.is_over:
                await turn.next()
        await snapshot(cache)
    assert problems[-1] == ("the pod is gone" if is_last_gone else None)


def queued(count: int, pods: int = 1, *, nodes: int = 100, step: int = 0) -> Cache:
    """A cluster in which that many Jobs wait, each of whose pods asks for too much, and for `step` more than those before."""
    cache = cluster(nodes)
    for j in range(count):
        waiting(cache, f"job{j}", pods, millis=100_000 + step * j)
    return cache


def at_rest(cache: Cache, *, is_wary: bool = False, are_alike: bool = False) -> None:
    """Leave all jobs at rest that the next session would look at. `are_alike`: those of one kind as such."""
    for facts in cache.snapshot().jobs:
        kind = facts.equivalence_class if are_alike else None
        triggers = {AnyChange()} if is_wary else {Room(task.shape) for task in facts.tasks}
        cache.retries.add(UnschedulableJob(facts, frozenset(triggers), kind))


async def ranking(size: int, turns: Turns) -> None:
    """Jobs of one pod are there when the service starts; then a PriorityClass changes, on which all may depend."""
    cache = queued(size)
    async with turns.watched():
        await snapshot(cache)
    at_rest(cache)
    async with turns.watched():
        cache.priority_changed(None, records.PriorityClass(value=1))
        await snapshot(cache)


async def rousing(size: int, turns: Turns) -> None:
    """Jobs of one pod are at rest, and all must be looked at after a reload, a change of their queue, any change, and its end."""
    cache = queued(size)
    known, changed = queue("default"), msgspec.structs.replace(queue("default"), spec=records.QueueSpec(weight=7))
    for change, is_wary in (
        (cache.stale, False),
        (partial(cache.queue_changed, known, changed), False),
        (partial(cache.pod_changed, None, pod("other", 0)), True),
        (partial(cache.queue_changed, changed, None), False),
    ):
        at_rest(cache, is_wary=is_wary)
        async with turns.watched():
            change()
            await snapshot(cache)


async def asking(size: int, turns: Turns) -> None:
    """Jobs of one pod and one kind are at rest, and the oldest is asked at any change, which wakes it alone."""
    cache = queued(size)
    at_rest(cache, is_wary=True, are_alike=True)
    async with turns.watched():
        for i in range(3):
            cache.pod_changed(None, pod("other", i))
            asked = (await snapshot(cache)).candidates[0][0]
            cache.retries.examine_again(asked.key)


async def fitting(size: int, turns: Turns) -> None:
    """Jobs of as many shapes are at rest, and nodes may hold more: on some of them each might fit."""
    cache = queued(size, nodes=5000, step=1)
    at_rest(cache)
    async with turns.watched():
        for i in range(0, 5000, 5):
            cache.nodes.may_be_roomier(f"node-{i}")
        cache.pod_changed(None, pod("other", 0))
        await snapshot(cache)


async def changing(size: int, turns: Turns) -> None:
    """One pod after another of a Job changes, with a session after each."""
    cache = cluster(5000)
    waiting(cache, "gang", size, millis=100_000)
    cache.snapshot()
    for i in range(5):
        body = msgspec.to_builtins(pod("gang", i, millis=100_000))
        body["metadata"]["labels"] = body["metadata"].get("labels", {}) | {"changed": "yes"}
        async with turns.watched():
            cache.pod_changed(None, msgspec.convert(body, records.Pod))
            await asyncio.sleep(0)
            await snapshot(cache)


async def queueing(size: int, turns: Turns) -> None:
    """Pods wait in Jobs of 100, all of which the session must look at."""
    cache = queued(size // 100, 100, nodes=5000)
    async with turns.watched():
        await snapshot(cache)


async def looking(size: int, turns: Turns) -> None:
    """`/debug/snapshot` of a cluster in which that many pods wait; its page is made in another thread."""
    cache = queued(size // 100, 100, nodes=5000)
    await snapshot(cache)
    async with turns.watched():
        await debug.page(cache, taken(cache, FILLING, Ports()))


async def deciding(size: int, turns: Turns) -> None:
    """A session of some seconds decides in its thread; Leases and watches need the loop meanwhile."""
    run = reclaiming(size)
    measuring = asyncio.ensure_future(measure_lag(turns.late))
    await asyncio.to_thread(run)
    measuring.cancel()


@dataclass(frozen=True)
class Work:
    name: str
    sizes: Sequence[int]
    run: Callable[[int, Turns], Coroutine[None, None, None]]


TABLE = {
    "assume": Work("a gang of N is assumed", (2500, 5000, 10_000), assuming),
    "return": Work("a gang of N is taken back", (2500, 5000, 10_000), partial(assuming, is_last_gone=True)),
    "change": Work("a Job of N pods changes", (12_500, 25_000, 50_000), changing),
    "wait": Work("N pods wait: snapshot", (25_000, 50_000, 100_000), queueing),
    "rank": Work("N Jobs: a PriorityClass changes", (25_000, 50_000, 100_000), ranking),
    "rouse": Work("N Jobs at rest are roused", (25_000, 50_000, 100_000), rousing),
    "ask": Work("of N Jobs of a kind one is asked", (25_000, 50_000, 100_000), asking),
    "shapes": Work("N shapes wait, nodes change", (1_000, 2_000, 4_000), fitting),
    "debug": Work("/debug/snapshot with N pods", (25_000, 50_000, 100_000), looking),
    "session": Work("a session reclaims for N Jobs", (2_000, 4_000, 8_000), deciding),
}


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.bench.scheduler_turns", description=__doc__)
    parser.add_argument("names", nargs="*", default=list(TABLE), help=f"of: {', '.join(TABLE)}")
    is_all_met = True
    sys.setswitchinterval(SWITCH_SECONDS)
    for name in parser.parse_args(arguments).names:
        work, found = TABLE[name], []
        for size in work.sizes:
            turns = Turns()
            gc.disable()  # the service freezes what it loads and collects in pieces
            asyncio.run(work.run(size, turns))
            gc.enable()
            gc.collect()
            found.append(turns)
        growth = math.log(max(found[-1].cpu, 1e-3) / max(found[0].cpu, 1e-3)) / math.log(work.sizes[-1] / work.sizes[0])
        figures = "  ".join(
            f"{size:>7,}: {each.cpu:6.1f} ({each.wall:6.1f})" for size, each in zip(work.sizes, found, strict=True)
        )
        is_met = found[-1].cpu <= _AIM
        is_all_met &= is_met
        print(
            f"{name:<8} {work.name:<32} {figures}  n^{growth:5.2f}  {'met' if is_met else 'MISSED'}  (loop {loop():.1f})",
            flush=True,
        )
    return 0 if is_all_met else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
