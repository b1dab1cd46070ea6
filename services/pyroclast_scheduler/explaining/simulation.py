"""Simulates one scenario of the future: run times are drawn, and waiting jobs start in their order as soon as there is room.

Room is the sum of free amounts of the cluster, and of each queue and its ancestors.
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

HORIZON: Final = 7 * 86400.0
MOST_STARTS: Final = 2000
_EPSILON: Final = 0.5


@dataclass(frozen=True, slots=True)
class World:
    """The initial state of a scenario.

    Attributes:
        free: the free amounts of the cluster, by dimension.
        used: the used amounts of queues, (queues, dimensions).
        limits: the limits of queues, (queues, dimensions).
        ends: the remaining run times of running jobs, (jobs, quantiles).
        held: the allocated amounts of running jobs, (jobs, dimensions).
        chains: the rows of the queue and its ancestors for each running job, padded with a row that has no limit.
        asked: the requests of waiting jobs, (jobs, dimensions), in the order of the scheduler.
        lengths: the run times of waiting jobs, (jobs, quantiles).
        waiting_chains: as `chains`, for waiting jobs.
        keys: the keys of waiting jobs.
        running: the random seeds of running jobs.
        waiting: the random seeds of waiting jobs.
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
    """Return a random seed for each job, the same in each pass, so that other jobs do not change the numbers drawn for a job."""
    return np.array([zlib.crc32(key.encode()) for key in keys], dtype=np.uint64)


def _chances(seeds: NDArray[np.uint64], number: int) -> Floats:
    """Return a random number from 0 to 1 for each job in scenario `number`: splitmix64 of seed and number."""
    mixed = (seeds << np.uint64(16)) + np.uint64(number + 1)
    mixed *= np.uint64(0x9E3779B97F4A7C15)
    for shift, factor in ((30, 0xBF58476D1CE4E5B9), (27, 0x94D049BB133111EB)):
        mixed = (mixed ^ (mixed >> np.uint64(shift))) * np.uint64(factor)
    return (mixed ^ (mixed >> np.uint64(31))) * 2.0**-64


def _drawn(grids: Floats, chances: Floats) -> Floats:
    """Return a value drawn from each distribution."""
    if not len(grids):
        return np.zeros(0)
    at = chances * (GRID - 1)
    low = np.minimum(at.astype(np.intp), GRID - 2)
    rows, part = np.arange(len(grids)), at - low
    first = grids[rows, low]
    step = np.where(np.isfinite(first), grids[rows, low + 1] - np.where(np.isfinite(first), first, 0.0), 0.0)
    return first + part * step


def scenario(world: World, number: int) -> Floats:
    """Return when each waiting job starts in scenario `number`, in seconds from now; infinite if later than the horizon.

    No job starts before another one has ended: a waiting job does not fit now, even if the sums suggest that it does.
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
    """The waiting jobs grouped by request and queue. Only the first job of each group is examined."""

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
        """Remove and return the first job that fits; None if none fits."""
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
