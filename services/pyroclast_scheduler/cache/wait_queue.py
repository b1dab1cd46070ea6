"""A wait queue: the unschedulable jobs of one kind, in the order in which they are served."""

from __future__ import annotations

from bisect import insort
from collections.abc import Sequence
from operator import attrgetter
from typing import Final

from pyroclast_scheduler.model.job_facts import JobFacts

_AGE: Final = attrgetter("created", "uid")
_MOST_GONE: Final = 50  # outdated entries beyond one per job, each with all pods of a job, before the order is rewritten


class WaitQueue:
    """The waiting jobs in order. Outdated entries stay in `order` until it is rewritten, and sessions skip them."""

    def __init__(self) -> None:
        self._members: dict[str, JobFacts] = {}
        self._written: dict[str, JobFacts] = {}
        self.order: list[JobFacts] = []
        """The waiting jobs, oldest first, with outdated entries. Jobs may be inserted while a session reads the list."""

    def __len__(self) -> int:
        return len(self._members)

    @property
    def members(self) -> Sequence[str]:
        """The keys of the waiting jobs."""
        return list(self._members)

    def add(self, facts: JobFacts) -> None:
        """Add a job, or replace its facts."""
        self._members[facts.key] = facts
        if self._written.get(facts.key) is facts:
            return
        if len(self.order) > 2 * len(self._members) + _MOST_GONE:
            self.order = [each for each in self.order if self._members.get(each.key) is each]
            self._written = {each.key: each for each in self.order}
        insort(self.order, facts, key=_AGE)
        self._written[facts.key] = facts

    def discard(self, key: str) -> None:
        """Remove a job from the queue."""
        self._members.pop(key, None)
