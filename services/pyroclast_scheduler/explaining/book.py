"""The waiting book: the causes of waiting jobs, their times, order and sums, updated with the results of each session."""

from __future__ import annotations

from bisect import bisect_left, insort
from collections import defaultdict, deque
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final

from pyroclast.api.enums import PodGroupPhase
from pyroclast.api.waiting_codes import says_never
from pyroclast.api.waiting_reasons import PendingReason
from pyroclast_scheduler.model.causes import Shortage, WaitingRecord
from pyroclast_scheduler.model.job_facts import JobFacts

_PLAIN: Final = frozenset({"cpu", "memory", "pods"})
_WHOLE: Final = frozenset({"memory", "pods"})
_MILLIS: Final = 1000.0
_NOT_PLACED: Final = frozenset({PodGroupPhase.PENDING, PodGroupPhase.INQUEUE})

Series = Mapping[tuple[str, ...], float]


@dataclass(frozen=True, slots=True)
class Waits:
    """Sums over the waiting jobs by queue, in cores, bytes and whole devices, with their longest wait in seconds.

    `unexamined`: the same of jobs that no session has examined.
    """

    jobs: Series
    resources: Series
    oldest: Series
    unexamined: Series


def measured(
    counts: Mapping[tuple[str, PendingReason], int], waiting: Collection[str], jobs: Mapping[str, JobFacts], now: float
) -> Waits:
    """Return the sums over `jobs`. `waiting`: the keys of the waiting jobs. `counts`: their number by queue and code."""
    asked: dict[tuple[str, ...], float] = defaultdict(float)
    oldest: dict[tuple[str, ...], float] = {}
    unexamined: dict[tuple[str, ...], float] = {}
    known = frozenset(waiting)
    for key, facts in jobs.items():
        slot = (facts.queue,)
        if key in known:
            oldest[slot] = max(oldest.get(slot, 0.0), now - facts.created)
            for name, amount in (facts.min_resources or {}).items():
                if name in _PLAIN or "/" in name:
                    asked[facts.queue, name] += amount if name in _WHOLE else amount / _MILLIS
        elif facts.phase in _NOT_PLACED and facts.tally.ready < facts.min_available:
            unexamined[slot] = max(unexamined.get(slot, 0.0), now - facts.created)
    return Waits({(queue, str(code)): float(count) for (queue, code), count in counts.items()}, asked, oldest, unexamined)


_MOST_PAST: Final = 8
_Place = tuple[tuple[Any, ...], str]


@dataclass(frozen=True, slots=True)
class PastCode:
    """A code and the time from which it applied, in seconds since the epoch."""

    code: PendingReason
    since: float


@dataclass(slots=True)
class WaitingEntry:
    """One waiting job. `seen`: when a session last examined the job. `past`: its last codes, ending with the present code."""

    key: str
    record: WaitingRecord
    seen: float
    past: deque[PastCode] = field(default_factory=lambda: deque(maxlen=_MOST_PAST))

    @property
    def code(self) -> PendingReason:
        """The code of the cause for which the job waits now."""
        return self.record.code

    @property
    def since(self) -> float:
        """The time from which the present code applies, in seconds since the epoch."""
        return self.past[-1].since

    @property
    def is_never(self) -> bool:
        """Whether the job cannot start without a change."""
        return says_never(self.record.sentence)

    @property
    def short(self) -> Sequence[Shortage]:
        """The resources of which the job needs more than is free."""
        return self.record.short or ()


class WaitingBook:
    """The waiting jobs by key of the PodGroup, and their order in each queue.

    An unschedulable job keeps the position of the last session that examined it, since its rank does not change while it waits.
    """

    def __init__(self) -> None:
        self._entries: dict[str, WaitingEntry] = {}
        self._queues: dict[str, list[_Place]] = {}
        self._by_code: dict[tuple[str, PendingReason], int] = {}
        self.ranked_by: tuple[str, ...] = ()

    def __len__(self) -> int:
        return len(self._entries)

    def copy(self) -> WaitingBook:
        """Return a copy for another thread. Later changes do not affect the order in the copy."""
        other = WaitingBook()
        other.ranked_by = self.ranked_by
        other._entries = self._entries.copy()
        other._queues = {queue: line.copy() for queue, line in self._queues.items()}
        return other

    def __iter__(self) -> Iterator[str]:
        return iter(self._entries)

    def get(self, key: str) -> WaitingEntry | None:
        """Return the entry of a job; None if the job does not wait or no session has examined it."""
        return self._entries.get(key)

    @property
    def counts(self) -> Mapping[tuple[str, PendingReason], int]:
        """The number of waiting jobs by queue and code. Callers must not change the mapping."""
        return self._by_code

    def slot(self, key: str) -> tuple[str, PendingReason] | None:
        """Return queue and code of a job; None if the job does not wait."""
        entry = self._entries.get(key)
        return None if entry is None else (entry.record.queue, entry.record.code)

    @property
    def queues(self) -> Collection[str]:
        """The queues with waiting jobs."""
        return self._queues.keys()

    def between(self, queue: str, start: int, stop: int) -> list[WaitingEntry]:
        """Return the waiting jobs at the positions from `start` to `stop` of a queue."""
        return [self._entries[key] for _, key in self._queues.get(queue, ())[start:stop]]

    def ranks(self, entry: WaitingEntry) -> dict[str, float]:
        """Return the numeric ranks of a waiting job by plugin. Jobs with smaller ranks are served earlier."""
        pairs = zip(self.ranked_by, entry.record.rank, strict=False)
        return {name: float(rank) for name, rank in pairs if isinstance(rank, int | float)}

    def length(self, queue: str) -> int:
        """Return the number of waiting jobs of a queue."""
        return len(self._queues.get(queue, ()))

    def ahead(self, entry: WaitingEntry) -> int:
        """Return the number of jobs ahead of `entry` in its queue."""
        record = entry.record
        return bisect_left(self._queues.get(record.queue, []), (record.rank, entry.key))

    def position(self, queue: str, rank: tuple[Any, ...], key: str) -> int:
        """Return the number of jobs ahead of a job with this rank and key."""
        return bisect_left(self._queues.get(queue, []), (rank, key))

    def place(self, queue: str, key: str) -> int | None:
        """Return the position of a job, from 0; None if the job does not wait in `queue`."""
        entry = self._entries.get(key)
        if entry is None or entry.record.queue != queue:
            return None
        return self.position(queue, entry.record.rank, key)

    def rank(self, key: str) -> tuple[Any, ...]:
        """Return the rank of a waiting job, which determines its position in the queue."""
        return self._entries[key].record.rank

    def order_of(self, queue: str) -> Iterator[str]:
        """Yield the keys of the waiting jobs of a queue, in order."""
        return (key for _, key in self._queues.get(queue, ()))

    def place_of(self, key: str, record: WaitingRecord) -> int:
        """Return how many other jobs would be ahead of the job if it had this record."""
        line = self._queues.get(record.queue, [])
        at = bisect_left(line, (record.rank, key))
        entry = self._entries.get(key)
        is_before = entry is not None and entry.record.queue == record.queue and entry.record.rank < record.rank
        return at - is_before

    def take(
        self, records: Mapping[str, WaitingRecord], seen: Collection[str], now: float, *, since: Mapping[str, PastCode]
    ) -> None:
        """Add the results of a session. A job in `seen` without a record does not wait any more.

        `since`: the codes that were known before the first session of this process, by key.
        """
        for key in seen:
            if key not in records and key in self._entries:
                self._remove(self._entries.pop(key))
        for key, record in records.items():
            self._put(key, record, now, since.get(key))

    def _put(self, key: str, record: WaitingRecord, now: float, earlier: PastCode | None) -> None:
        entry = self._entries.get(key)
        if entry is None:
            is_same = earlier is not None and earlier.code is record.code
            entry = self._entries[key] = WaitingEntry(key, record, now)
            entry.past.append(earlier if earlier is not None and is_same else PastCode(record.code, now))
        else:
            self._remove(entry)
            if record.short is None and record.code is entry.code:
                record = replace(record, short=entry.record.short)
            if record.code is not entry.code:
                entry.past.append(PastCode(record.code, now))
            entry.record, entry.seen = record, now
        insort(self._queues.setdefault(record.queue, []), (record.rank, key))
        slot = record.queue, record.code
        self._by_code[slot] = self._by_code.get(slot, 0) + 1

    def _remove(self, entry: WaitingEntry) -> None:
        record = entry.record
        line = self._queues[record.queue]
        del line[bisect_left(line, (record.rank, entry.key))]
        if not line:
            del self._queues[record.queue]
        slot = record.queue, record.code
        self._by_code[slot] -= 1
        if not self._by_code[slot]:
            del self._by_code[slot]
