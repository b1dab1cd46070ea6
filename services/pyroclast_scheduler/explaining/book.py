"""The book of jobs that wait: why, since when, and in which order; kept up to date with what each session found out."""

from __future__ import annotations

from bisect import bisect_left, insort
from collections import deque
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final

from pyroclast.api.waiting_codes import says_never
from pyroclast.api.waiting_reasons import PendingReason
from pyroclast_scheduler.model.causes import Shortage, WaitingRecord

__all__ = ["PastCode", "WaitingBook", "WaitingEntry"]

_MOST_PAST: Final = 8
_Place = tuple[tuple[Any, ...], str]


@dataclass(frozen=True, slots=True)
class PastCode:
    """A code that held from `since` on, in seconds since the epoch."""

    code: PendingReason
    since: float


@dataclass(slots=True)
class WaitingEntry:
    """One job that waits. `seen`: when a session looked at it last; `past`: its last codes, the current one at the end."""

    key: str
    record: WaitingRecord
    seen: float
    past: deque[PastCode] = field(default_factory=lambda: deque(maxlen=_MOST_PAST))

    @property
    def code(self) -> PendingReason:
        """The code that holds now."""
        return self.record.code

    @property
    def since(self) -> float:
        """Since when the code holds."""
        return self.past[-1].since

    @property
    def is_never(self) -> bool:
        """Whether waiting alone does not help."""
        return says_never(self.record.sentence)

    @property
    def short(self) -> Sequence[Shortage]:
        """The resources that are short."""
        return self.record.short or ()


class WaitingBook:
    """Entries by key of the PodGroup, and by queue the order in which they wait.

    A job at rest keeps the place of the session that looked at it last: what ranks it stands while it waits.
    """

    def __init__(self) -> None:
        self._entries: dict[str, WaitingEntry] = {}
        self._queues: dict[str, list[_Place]] = {}
        self._by_code: dict[tuple[str, PendingReason], int] = {}
        self.ranked_by: tuple[str, ...] = ()

    def __len__(self) -> int:
        return len(self._entries)

    def copy(self) -> WaitingBook:
        """The book as it is, for another thread: what is taken up later does not show in its order."""
        other = WaitingBook()
        other.ranked_by = self.ranked_by
        other._entries = self._entries.copy()
        other._queues = {queue: line.copy() for queue, line in self._queues.items()}
        return other

    def __iter__(self) -> Iterator[str]:
        return iter(self._entries)

    def get(self, key: str) -> WaitingEntry | None:
        """The entry of a job; None if it does not wait, or no session has looked at it."""
        return self._entries.get(key)

    @property
    def counts(self) -> Mapping[tuple[str, PendingReason], int]:
        """How many wait by queue and code. Not to be changed."""
        return self._by_code

    def slot(self, key: str) -> tuple[str, PendingReason] | None:
        """Queue and code of a job; None if it does not wait."""
        entry = self._entries.get(key)
        return None if entry is None else (entry.record.queue, entry.record.code)

    @property
    def queues(self) -> Collection[str]:
        """Queues in which jobs wait."""
        return self._queues.keys()

    def order(self, queue: str) -> Sequence[str]:
        """The keys of the jobs that wait in a queue, the first one first."""
        return [key for _, key in self._queues.get(queue, ())]

    def between(self, queue: str, start: int, stop: int) -> list[WaitingEntry]:
        """The entries of a part of the order."""
        return [self._entries[key] for _, key in self._queues.get(queue, ())[start:stop]]

    def ranks(self, entry: WaitingEntry) -> dict[str, float]:
        """Its rank by plugin, the smaller first; only numbers."""
        pairs = zip(self.ranked_by, entry.record.rank, strict=False)
        return {name: float(rank) for name, rank in pairs if isinstance(rank, int | float)}

    def length(self, queue: str) -> int:
        """How many wait in a queue."""
        return len(self._queues.get(queue, ()))

    def ahead(self, entry: WaitingEntry) -> int:
        """How many wait before it in its queue."""
        record = entry.record
        return bisect_left(self._queues.get(record.queue, []), (record.rank, entry.key))

    def position(self, queue: str, rank: tuple[Any, ...], key: str) -> int:
        """How many stand before a job of that rank."""
        return bisect_left(self._queues.get(queue, []), (rank, key))

    def place(self, queue: str, key: str) -> int | None:
        """The place of a job, from 0; None if it does not stand in that queue."""
        entry = self._entries.get(key)
        if entry is None or entry.record.queue != queue:
            return None
        return self.position(queue, entry.record.rank, key)

    def rank(self, key: str) -> tuple[Any, ...]:
        """The rank of a job that waits."""
        return self._entries[key].record.rank

    def order_of(self, queue: str) -> Iterator[str]:
        """The keys of the jobs that wait in a queue, the first one first."""
        return (key for _, key in self._queues.get(queue, ()))

    def place_of(self, key: str, record: WaitingRecord) -> int:
        """How many others would wait before the job if its record were this one."""
        line = self._queues.get(record.queue, [])
        at = bisect_left(line, (record.rank, key))
        known = self._entries.get(key)
        is_before = known is not None and known.record.queue == record.queue and known.record.rank < record.rank
        return at - is_before

    def take(
        self, records: Mapping[str, WaitingRecord], seen: Collection[str], now: float, *, since: Mapping[str, PastCode]
    ) -> None:
        """Take up what a session found out; jobs that it has `seen` and says nothing of wait no more.

        `since`: what was known before the first session of this process, by key.
        """
        for key in seen:
            if key not in records and key in self._entries:
                self._remove(self._entries.pop(key))
        for key, record in records.items():
            self._put(key, record, now, since.get(key))

    def _put(self, key: str, record: WaitingRecord, now: float, known: PastCode | None) -> None:
        entry = self._entries.get(key)
        if entry is None:
            is_same = known is not None and known.code is record.code
            entry = self._entries[key] = WaitingEntry(key, record, now)
            entry.past.append(known if known is not None and is_same else PastCode(record.code, now))
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
