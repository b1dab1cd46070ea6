"""What the controller remembers of each Job beside what the cluster shows. All of it may be lost."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final

from pyroclast.api.records import Job
from pyroclast.api.types import Key
from pyroclast.lifecycle.occurrences import Occurrence
from pyroclast.lifecycle.views import Decision, Memory, Order
from pyroclast_job_controller.pacing import Pace

__all__ = ["JobMemory", "Memories"]

_MOST_OCCURRENCES: Final = 10_000
"""Of one Job: as many as it has pods, in the worst case; beyond that the oldest are dropped."""


@dataclass(slots=True)
class JobMemory:
    """Of one Job, that very one (`uid`)."""

    uid: str
    pace: Pace
    orders: list[Order] = field(default_factory=list)
    occurrences: list[Occurrence] = field(default_factory=list)
    prepared: int = 0
    removed: bool = False
    objects: dict[str, str] = field(default_factory=dict)
    """Plugin objects that we made, with their uids."""
    told: dict[str, str] = field(default_factory=dict)
    """The last notice of each reason, which is not repeated as long as it stays the same."""
    was_refused: bool = False
    """Whether the last try to get on failed, whatever the cause."""
    is_new: bool = True
    """The Job has not been looked at yet since we are responsible for it."""
    refusals: int = 0
    """How often in a row the Job was refused something."""
    next_try: float = 0.0
    """When it may try again, in seconds since the epoch."""
    closed: int = 0
    """How often in a row its namespace was found to be going."""
    closed_until: float = 0.0
    """Until when nothing is tried because of that, in seconds since the epoch."""

    def snapshot(self) -> Memory:
        """For a decision."""
        return Memory(tuple(self.orders), tuple(self.occurrences), self.prepared, self.removed)

    def settle(self, decision: Decision) -> None:
        """Forget what `decision`, which has been carried out, was about."""
        if decision.order is not None and decision.order in self.orders:
            self.orders.remove(decision.order)
        if decision.forget:
            self.occurrences = [occurrence for occurrence in self.occurrences if occurrence not in decision.forget]

    def notice(self, occurrence: Occurrence) -> None:
        """Remember what happened until it is answered."""
        self.occurrences.append(occurrence)
        del self.occurrences[:-_MOST_OCCURRENCES]


class Memories:
    """The memories of all Jobs, by key. A Job that is made anew under a name starts with none."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._by_key: dict[Key, JobMemory] = {}

    def of(self, job: Job) -> JobMemory:
        """The memory of `job`."""
        memory = self._by_key.get(job.key)
        if memory is None or memory.uid != job.metadata.uid:
            memory = self._by_key[job.key] = JobMemory(job.metadata.uid, Pace(self._clock))
        return memory

    def forget(self, key: Key) -> None:
        """The Job is gone, or no longer ours."""
        self._by_key.pop(key, None)

    def clear(self, selected: Callable[[Key], bool]) -> None:
        """Forget all Jobs for which `selected` holds."""
        for key in [key for key in self._by_key if selected(key)]:
            del self._by_key[key]
