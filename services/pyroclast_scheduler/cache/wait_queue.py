"""A wait queue: the unschedulable jobs of one kind, in the order in which they get something."""

from __future__ import annotations

from bisect import insort
from collections.abc import Sequence
from operator import attrgetter
from typing import Final

from pyroclast_scheduler.model.job_facts import JobFacts

__all__ = ["WaitQueue"]

_AGE: Final = attrgetter("created", "uid")
_MOST_GONE: Final = 50  # entries beyond two for each job in line, each with all pods of a job, until it is written anew


class WaitQueue:
    """A job that leaves stays in the written order until that is written anew: sessions pass over those that left."""

    def __init__(self) -> None:
        self._members: dict[str, JobFacts] = {}
        self._written: dict[str, JobFacts] = {}
        self.order: list[JobFacts] = []
        """Those in line, oldest first, and maybe others that were. While a session reads it, jobs may come in between."""

    def __len__(self) -> int:
        return len(self._members)

    @property
    def members(self) -> Sequence[str]:
        """The keys of those in line."""
        return list(self._members)

    def add(self, facts: JobFacts) -> None:
        """Take a job into the line, or its facts as they are now."""
        self._members[facts.key] = facts
        if self._written.get(facts.key) is facts:
            return
        if len(self.order) > 2 * len(self._members) + _MOST_GONE:
            self.order = [each for each in self.order if self._members.get(each.key) is each]
            self._written = {each.key: each for each in self.order}
        insort(self.order, facts, key=_AGE)
        self._written[facts.key] = facts

    def discard(self, key: str) -> None:
        """The job is not in line any more."""
        self._members.pop(key, None)
