"""The content of the annotation of a waiting PodGroup, and the decision whether a change of it is worth a write."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime
from math import ceil
from typing import Final

from pyroclast.api import keys
from pyroclast.api.enums import NativeConditionType
from pyroclast.api.waiting import Waiting, ahead_step
from pyroclast.lifecycle.gang.groups import Group
from pyroclast.lifecycle.times import format_time
from pyroclast_scheduler.explaining.book import WaitingBook, WaitingEntry

REST_SECONDS: Final = 300.0
"""The shortest time between two writes to one PodGroup for changes of numbers alone."""


@dataclass(frozen=True, slots=True)
class Start:
    """The estimated start of a job, in seconds since the epoch. `basis`: a text that names the data behind the estimate."""

    earliest: float
    likely: float
    latest: float
    basis: str

    def at(self, now: float) -> Start | None:
        """Return the start without times before `now`; None if the whole interval is over."""
        if self.latest <= now:
            return None
        first = float(ceil(now))
        return replace(self, earliest=max(self.earliest, first), likely=max(self.likely, first), latest=max(self.latest, first))


def said_of(group: Group) -> str:
    """Return the explanation that the object of a group contains, see `pyroclast.api.waiting`; empty if there is none."""
    if group.keeps_phase:
        return group.metadata.annotations.get(keys.WAITING, "")
    return next((each.message for each in group.said if each.type == NativeConditionType.WAITING), "")


def waiting_of(
    book: WaitingBook,
    entry: WaitingEntry,
    start: Start | None = None,
    *,
    queue: str = "",
    requests: Mapping[str, str] | None = None,
) -> Waiting:
    """Return the explanation for a PodGroup. `queue`, `requests`: given if the object has no other field for them."""
    ahead = book.ahead(entry)
    first = book.between(entry.record.queue, 0, 1)[0].key if ahead else ""
    is_own = first.partition("/")[0] == entry.key.partition("/")[0]  # readers may not know jobs of other namespaces
    short = entry.short[0] if entry.short else None
    return Waiting(
        code=entry.code,
        never=entry.is_never,
        since=format_time(entry.since),
        seen=format_time(entry.seen),
        resource="" if short is None else short.resource,
        asks="" if short is None else short.asked,
        has="" if short is None else short.used or short.free or "",
        may="" if short is None else short.limit or "",
        ahead=ahead_step(ahead),
        first=first if is_own else "",
        start=None if start is None else (format_time(start.earliest), format_time(start.likely), format_time(start.latest)),
        basis="" if start is None else start.basis,
        queue=queue,
        requests=requests or {},
    )


def is_worth_a_write(old: Waiting | None, new: Waiting | None) -> bool:
    """Whether the explanation `old` should be replaced by `new`.

    This is the case if code, order step, queue or requests differ, or if the likely start moves by more than half the interval.
    """
    if old is None or new is None:
        return old is not new
    if (old.code, old.never, old.ahead, old.queue) != (new.code, new.never, new.ahead, new.queue):
        return True
    if old.requests != new.requests:
        return True
    if old.start is None or new.start is None:
        return old.start is not new.start
    earliest, likely, latest = map(_seconds, new.start)
    return abs(likely - _seconds(old.start[1])) > (latest - earliest) / 2


def _seconds(timestamp: str) -> float:
    return datetime.fromisoformat(timestamp).timestamp()


@dataclass(slots=True)
class Turns:
    """Checks the waiting jobs in turn, a few at a time, for explanations that are worth a write."""

    _rest: deque[str] = field(default_factory=deque)
    _written: dict[str, float] = field(default_factory=dict)

    def next(self, keys: Iterable[str], is_due: Callable[[str], bool], now: float, *, most: int) -> str | None:
        """Return the first key among the next `most` for which `is_due` is true; None if there is none.

        A returned key is not returned again for `REST_SECONDS`.
        """
        if not self._rest:
            self._rest.extend(keys)
            self._written = {key: at for key, at in self._written.items() if now < at + REST_SECONDS}
        for _ in range(min(most, len(self._rest))):
            key = self._rest.popleft()
            if now >= self._written.get(key, float("-inf")) + REST_SECONDS and is_due(key):
                self._written[key] = now
                return key
        return None
