"""A line: jobs of one kind at rest, in the order in which they get something."""

from __future__ import annotations

from collections.abc import Sequence
from operator import attrgetter
from typing import Final

from pyroclast_scheduler.model.facts import JobFacts

__all__ = ["Line"]

_AGE: Final = attrgetter("created", "uid")
_MOST_GONE: Final = 1000  # entries of jobs that left the line, beyond which it is written anew


class Line:
    """Who leaves stays in the written order until that is written anew: sessions pass over who is not in line any more."""

    def __init__(self) -> None:
        self._members: dict[str, JobFacts] = {}
        self._written: dict[str, JobFacts] = {}
        self._order: list[JobFacts] = []
        self._is_written = True

    def __len__(self) -> int:
        return len(self._members)

    @property
    def members(self) -> Sequence[str]:
        """The keys of those in line."""
        return list(self._members)

    def add(self, facts: JobFacts) -> None:
        """Take a job into the line, or its facts as they are now."""
        self._members[facts.key] = facts
        self._is_written &= self._written.get(facts.key) is facts

    def discard(self, key: str) -> None:
        """The job is not in line any more."""
        self._members.pop(key, None)

    def order(self) -> Sequence[JobFacts]:
        """Those in line, oldest first, and maybe others that were. It stays as it is."""
        if not self._is_written or len(self._order) > 2 * len(self._members) + _MOST_GONE:
            self._order = sorted(self._members.values(), key=_AGE)
            self._written = self._members.copy()
            self._is_written = True
        return self._order
