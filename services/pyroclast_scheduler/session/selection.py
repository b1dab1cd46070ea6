"""Which job comes next: heaps of queues and jobs, and one job for all equivalent unschedulable jobs.

A session tries the first job of each equivalence class, and the next one only after the first was placed. The key of a heap
item is calculated when the item is pushed; with `is_live`, keys that have grown since are calculated again before an item is
popped.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Iterator
from itertools import chain
from typing import Any, Generic, TypeVar

from pyroclast_scheduler.model.job_facts import JobFacts
from pyroclast_scheduler.model.jobs import Job
from pyroclast_scheduler.model.snapshot import Snapshot

T = TypeVar("T")


class Heap(Generic[T]):
    """A heap with the smallest key first."""

    def __init__(self, key: Callable[[T], tuple[Any, ...]], *, is_live: bool = False) -> None:
        self._key = key
        self._is_live = is_live
        self._items: list[tuple[tuple[Any, ...], int, T]] = []
        self._pushed = 0

    def __len__(self) -> int:
        return len(self._items)

    def push(self, item: T) -> None:
        """Add `item`."""
        self._pushed += 1
        heapq.heappush(self._items, (self._key(item), self._pushed, item))

    def pop(self) -> T:
        """Remove and return the item with the smallest key."""
        while self._is_live:
            key, pushed, item = self._items[0]
            now = self._key(item)
            if not key < now:
                break
            heapq.heapreplace(self._items, (now, pushed, item))
        return heapq.heappop(self._items)[2]


class EquivalentJobs:
    """Selects jobs of each equivalence class, oldest first, one after another. A selected job is added to `jobs`.

    `selected`: the keys of these jobs. `unexplained`: those of which the session knows no cause. `others`: jobs made for reading.
    If `is_distinct`, the name of a job may decide its placement, so that its whole class is selected at once.
    """

    def __init__(
        self,
        snapshot: Snapshot,
        jobs: dict[str, Job],
        others: dict[str, Job],
        *,
        make: Callable[[JobFacts], Job],
        is_distinct: Callable[[Job], bool],
    ) -> None:
        self.selected: list[str] = []
        self.unexplained: set[str] = set()
        self._jobs = jobs
        self._others = others
        self._make = make
        self._others_of_class: dict[str, Iterator[JobFacts]] = {}
        known = snapshot.all_jobs
        for each in snapshot.candidates:
            job = self._select(facts for facts in each if known.get(facts.key) is facts and facts.key not in jobs)
            while job is not None and is_distinct(job):
                job = self.next_after(job)

    def next_after(self, job: Job) -> Job | None:
        """Select the next job of the class of `job`, which was placed just now; None if there is none, or on a second call."""
        order = self._others_of_class.pop(job.facts.key, None)
        return None if order is None else self._select(order)

    def has_next(self, job: Job) -> bool:
        """Whether another job of the class of `job` can be selected."""
        return job.facts.key in self._others_of_class

    def _select(self, order: Iterator[JobFacts]) -> Job | None:
        facts = next(order, None)
        if facts is None:
            return None
        job = self._others.pop(facts.key, None) or self._make(facts)
        self._jobs[facts.key] = job
        self.selected.append(facts.key)
        behind = next(order, None)
        if behind is not None:
            self._others_of_class[facts.key] = chain([behind], order)
        return job
