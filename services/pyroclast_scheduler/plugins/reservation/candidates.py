"""The jobs for which nodes may be reserved, best first, kept from session to session."""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Iterator, Mapping, Sequence
from typing import Final, TypeAlias

from pyroclast.api import keys
from pyroclast.api.enums import PodGroupPhase
from pyroclast_scheduler.model.job_facts import JobFacts
from pyroclast_scheduler.model.snapshot import Snapshot

Weight: TypeAlias = tuple[bool, int]
_Rank: TypeAlias = tuple[bool, int, float, str, str]

WAITING_PHASES: Final = frozenset({PodGroupPhase.PENDING, PodGroupPhase.INQUEUE})
_MOST_GONE: Final = 50  # entries above twice the number of waiting jobs, before those of deleted jobs are dropped


class Candidates:
    """Named jobs first, then by priority, then by age; by queue if each queue has its own target.

    A changed job is among the jobs of the next session, so that unchanged jobs are read only once.
    """

    is_derived: Final = True

    def __init__(self) -> None:
        self._number = 0
        self._by_queue = False
        self._known: dict[str, tuple[str, _Rank]] = {}
        self._scopes: dict[str, list[_Rank]] = {}
        self._swept = 0

    def open(self, snapshot: Snapshot, *, by_queue: bool) -> None:
        """Apply the changes since the last session. This method must be called for each session."""
        is_next = snapshot.number == self._number + 1 and by_queue == self._by_queue
        self._number, self._by_queue = snapshot.number, by_queue
        if not is_next:
            self._known.clear()
            self._scopes.clear()
        for facts in snapshot.jobs if is_next else snapshot.all_jobs.values():
            self._take(facts)
        if len(self._known) > 2 * self._swept + _MOST_GONE:
            for key in [key for key in self._known if key not in snapshot.all_jobs]:
                self._drop(key)
            self._swept = len(self._known)

    @property
    def scopes(self) -> Sequence[str]:
        """The queues with waiting jobs; one empty name for the whole cluster if targets are not chosen by queue."""
        return sorted(self._scopes)

    def of(self, scope: str, known: Mapping[str, JobFacts]) -> Iterator[JobFacts]:
        """Yield the jobs of a scope, best first. `known`: the present facts of all jobs."""
        return (facts for rank in self._scopes.get(scope, ()) if (facts := known.get(rank[-1])) is not None)

    def _take(self, facts: JobFacts) -> None:
        entry = (facts.queue if self._by_queue else "", _rank(facts))
        is_candidate = facts.is_ours and facts.phase in WAITING_PHASES
        if is_candidate and self._known.get(facts.key) == entry:
            return
        self._drop(facts.key)
        if is_candidate:
            self._known[facts.key] = entry
            insort(self._scopes.setdefault(entry[0], []), entry[1])

    def _drop(self, key: str) -> None:
        known = self._known.pop(key, None)
        if known is None:
            return
        scope, rank = known
        whose = self._scopes[scope]
        del whose[bisect_left(whose, rank)]
        if not whose:
            del self._scopes[scope]


def is_named(facts: JobFacts) -> bool:
    """Whether the user requested a reservation."""
    return facts.group.metadata.annotations.get(keys.RESERVATION_TARGET) == "true"


def weight(facts: JobFacts) -> Weight:
    """Return the sort key of named jobs and priority; the lower is better.

    Age decides among equal keys, but an older job does not replace an existing target.
    """
    return (not is_named(facts), -facts.priority)


def _rank(facts: JobFacts) -> _Rank:
    return (*weight(facts), facts.created, facts.uid, facts.key)
