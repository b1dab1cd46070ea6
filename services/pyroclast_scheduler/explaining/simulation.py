"""When there is room: one scenario of what comes, in which ends are drawn and those that wait are placed in their order.

Room is counted in sums: of the cluster, and of each queue and those above it.
"""

from __future__ import annotations

import heapq
import zlib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from pyroclast_scheduler.explaining.lengths import GRID
from pyroclast_scheduler.model.dimensions import Ints
from pyroclast_scheduler.model.node_columns import Floats

__all__ = ["HORIZON", "World", "scenario", "seeds"]

HORIZON: Final = 7 * 86400.0
MOST_STARTS: Final = 2000
_EPSILON: Final = 0.5


@dataclass(frozen=True, slots=True)
class World:
    """What a scenario begins with. Rows of the last four are jobs that wait, in the order in which the scheduler takes them.

    `free`: of the cluster, by dimension; `used` and `limits`: of queues, (queues, dimensions). `ends`: what is left of jobs that
    run, (jobs, quantiles); `held`: what they hold, (jobs, dimensions); `chains`: rows of the queue of each and of those above it,
    padded with one row that has no limit. `running` and `waiting`: the seeds of the jobs, one each.
    """

    free: Floats
    used: Floats
    limits: Floats
    ends: Floats
    held: Floats
    chains: Ints
    asked: Floats
    lengths: Floats
    waiting_chains: Ints
    keys: Sequence[str]
    running: NDArray[np.uint64]
    waiting: NDArray[np.uint64]


def seeds(keys: Iterable[str]) -> NDArray[np.uint64]:
    """One for each job, the same at each pass: what becomes of other jobs does not change what is drawn for it."""
    return np.array([zlib.crc32(key.encode()) for key in keys], dtype=np.uint64)


def _chances(seeds: NDArray[np.uint64], number: int) -> Floats:
    """A random number of each job, from 0 to 1, in the scenario of a number: splitmix64 of both."""
    mixed = (seeds << np.uint64(16)) + np.uint64(number + 1)
    mixed *= np.uint64(0x9E3779B97F4A7C15)
    for shift, factor in ((30, 0xBF58476D1CE4E5B9), (27, 0x94D049BB133111EB)):
        mixed = (mixed ^ (mixed >> np.uint64(shift))) * np.uint64(factor)
    return (mixed ^ (mixed >> np.uint64(31))) * 2.0**-64


def _drawn(grids: Floats, chances: Floats) -> Floats:
    """A value of each distribution."""
    if not len(grids):
        return np.zeros(0)
    at = chances * (GRID - 1)
    low = np.minimum(at.astype(np.intp), GRID - 2)
    rows, part = np.arange(len(grids)), at - low
    first = grids[rows, low]
    step = np.where(np.isfinite(first), grids[rows, low + 1] - np.where(np.isfinite(first), first, 0.0), 0.0)
    return first + part * step


def scenario(world: World, number: int) -> Floats:
    """When each job that waits starts in the scenario of a number, in seconds from now; infinite where not within the horizon.

    Nobody starts before something has ended: who waits does not fit now, whatever sums say.
    """
    ends = _drawn(world.ends, _chances(world.running, number))
    lengths = _drawn(world.lengths, _chances(world.waiting, number)).tolist()
    free, used = world.free.copy(), world.used.copy()
    starts = np.full(len(world.keys), np.inf)
    kinds = _Kinds(world)
    events = [(end, row) for row, end in enumerate(ends.tolist()) if end < HORIZON]
    heapq.heapify(events)
    count, left = len(ends), min(len(world.keys), MOST_STARTS)
    while events and left:
        at = events[0][0]
        while events and events[0][0] <= at:
            _, row = heapq.heappop(events)
            is_new = row >= count
            held = world.asked[row - count] if is_new else world.held[row]
            free += held
            used[world.waiting_chains[row - count] if is_new else world.chains[row]] -= held
        while left and (job := kinds.next(free, used)) is not None:
            starts[job] = at
            left -= 1
            free -= world.asked[job]
            used[world.waiting_chains[job]] += world.asked[job]
            if at + lengths[job] < HORIZON:
                heapq.heappush(events, (at + lengths[job], count + job))
    return starts


class _Kinds:
    """Jobs that wait by what they ask for and in which queue: of one kind the first alone is looked at."""

    def __init__(self, world: World) -> None:
        whole = np.concatenate([world.asked, world.waiting_chains], axis=1)
        _, first, kind = np.unique(whole, axis=0, return_index=True, return_inverse=True)
        self._asked, self._chains = world.asked[first], world.waiting_chains[first]
        self._limits = world.limits[self._chains]
        self._lines: list[list[int]] = [[] for _ in first]
        for job in range(len(world.keys) - 1, -1, -1):
            self._lines[int(kind.ravel()[job])].append(job)
        self._none = len(world.keys)
        self._heads = np.array([line[-1] for line in self._lines], dtype=np.int64)

    def next(self, free: Floats, used: Floats) -> int | None:
        """The first job that fits, which waits no more; None if none does."""
        fits = (self._asked <= free + _EPSILON).all(axis=1) & (self._heads < self._none)
        if not fits.any():
            return None
        fits &= (used[self._chains] + self._asked[:, None, :] <= self._limits + _EPSILON).all(axis=(1, 2))
        kind = int(np.where(fits, self._heads, self._none).argmin())
        if not fits[kind]:
            return None
        line = self._lines[kind]
        job = line.pop()
        self._heads[kind] = line[-1] if line else self._none
        return job
