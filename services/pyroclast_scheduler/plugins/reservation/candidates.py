"""The jobs that nodes may be reserved for, best first, kept from session to session."""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Iterator, Mapping, Sequence
from typing import Final, TypeAlias

from pyroclast.api import keys
from pyroclast.api.enums import PodGroupPhase
from pyroclast_scheduler.model.job_facts import JobFacts
from pyroclast_scheduler.model.snapshot import Snapshot

__all__ = ["WAITING_PHASES", "Candidates", "Weight", "is_named", "weight"]

Weight: TypeAlias = tuple[bool, int]
_Rank: TypeAlias = tuple[bool, int, float, str]

WAITING_PHASES: Final = frozenset({PodGroupPhase.PENDING, PodGroupPhase.INQUEUE})
_MOST_GONE: Final = 50  # entries beyond two for each job that waits, until those of jobs that have gone are dropped


class Candidates:
    """Named jobs first, then the most important, then who has waited longest; by queue where each queue has its own target.

    A job that changed is among those that the next session looks at, so that jobs at rest are read once.
    """

    is_derived: Final = True

    def __init__(self) -> None:
        self._number = 0
        self._by_queue = False
        self._known: dict[str, tuple[str, JobFacts]] = {}
        self._scopes: dict[str, list[JobFacts]] = {}

    def open(self, snapshot: Snapshot, *, by_queue: bool) -> None:
        """A session begins: take up what changed since the last one. To be told of each."""
        is_next = snapshot.number == self._number + 1 and by_queue == self._by_queue
        self._number, self._by_queue = snapshot.number, by_queue
        if not is_next:
            self._known.clear()
            self._scopes.clear()
        for facts in snapshot.jobs if is_next else snapshot.all_jobs.values():
            known = self._known.get(facts.key)
            if known is None or known[1] is not facts:
                self._drop(facts.key)
                self._add(facts)
        if len(self._known) > 2 * len(snapshot.all_jobs) + _MOST_GONE:
            for key, (_, facts) in list(self._known.items()):
                if snapshot.all_jobs.get(key) is not facts:
                    self._drop(key)

    @property
    def scopes(self) -> Sequence[str]:
        """The queues in which jobs wait; one empty name for the whole cluster where targets are not chosen by queue."""
        return sorted(self._scopes)

    def of(self, scope: str, known: Mapping[str, JobFacts]) -> Iterator[JobFacts]:
        """Those of a scope, best first. `known`: all jobs as they are now."""
        return (facts for facts in self._scopes.get(scope, ()) if known.get(facts.key) is facts)

    def _add(self, facts: JobFacts) -> None:
        if not facts.is_ours or facts.phase not in WAITING_PHASES:
            return
        scope = facts.queue if self._by_queue else ""
        self._known[facts.key] = scope, facts
        insort(self._scopes.setdefault(scope, []), facts, key=_rank)

    def _drop(self, key: str) -> None:
        known = self._known.pop(key, None)
        if known is None:
            return
        scope, facts = known
        whose = self._scopes[scope]
        at = bisect_left(whose, _rank(facts), key=_rank)
        while whose[at] is not facts:
            at += 1
        del whose[at]
        if not whose:
            del self._scopes[scope]


def is_named(facts: JobFacts) -> bool:
    """Whether the user asked for a reservation."""
    return facts.group.metadata.annotations.get(keys.RESERVATION_TARGET) == "true"


def weight(facts: JobFacts) -> Weight:
    """Who goes before others: the lower one; age decides among equals, and takes nobody's nodes away."""
    return (not is_named(facts), -facts.priority)


def _rank(facts: JobFacts) -> _Rank:
    return (*weight(facts), facts.created, facts.uid)
