"""Decides when a value is written.

A value is written only after it was requested for some time, and two writes of one key have a minimum distance. The code is pure:
times are parameters.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Hashable
from dataclasses import dataclass
from typing import Final, Generic, TypeVar

from pyroclast.api.enums import PodGroupConditionType
from pyroclast.api.types import JOBS
from pyroclast.api.waiting_reasons import PendingReason, reason_of
from pyroclast.lifecycle.gang.groups import Group, GroupCondition, GroupStatus
from pyroclast.resources.backoff import Backoff
from pyroclast_scheduler.session.outcome import WaitingTask

_FEW: Final = 1024
HOLD_SECONDS: Final = 1.0
_ORDER_SECONDS: Final = 10.0
"""For reasons that change for all waiting jobs whenever a job ends: there is room until it is reserved for the first job."""
_EARLY_SECONDS: Final = 2.5
"""The time after the creation of a member before a gang counts as stuck."""
_MADE_SECONDS: Final = 30.0
"""The same time for the gang of a Job, whose status reports why pods are not created."""
_ROOM: Final = frozenset({PendingReason.QUEUE_FULL, PendingReason.CLUSTER_FULL, PendingReason.BEHIND_ANOTHER})
_MOST: Final = 50  # values that `due` returns at once; they cost some milliseconds of the event loop
K = TypeVar("K", bound=Hashable)
V = TypeVar("V")


@dataclass(slots=True)
class Pruner:
    """Checks one table each time that its size has doubled, so that the cost per entry is constant."""

    limit: int = _FEW

    def prune(self, table: dict[K, V], is_there: Callable[[K], bool]) -> None:
        """Remove the entries of `table` whose key does not exist by `is_there`, if the table is large enough."""
        if len(table) <= self.limit:
            return
        for key in [key for key in table if not is_there(key)]:
            del table[key]
        self.limit = max(_FEW, 2 * len(table))


def seconds_of_reason(said: str, reason: str) -> float:
    """Return for how many seconds the reason of a group must last. `said`: the present reason in its object, empty for none."""
    return _ORDER_SECONDS if said != reason and {said, reason} <= _ROOM else HOLD_SECONDS


def seconds_of_pod(waiting: WaitingTask, group: Group | None) -> float:
    """Return for how many seconds the reason of a pod of `group` must last."""
    if waiting.nominated:
        return 0.0
    if waiting.members is None:
        return HOLD_SECONDS
    maker = group.metadata.controller if group is not None else None
    return _MADE_SECONDS if maker is not None and maker.kind == JOBS.kind else _EARLY_SECONDS


def waiting_reason(status: GroupStatus) -> str:
    """Return the reason of a waiting group in its conditions; empty if there is none."""
    return next(filter(None, (reason_of(each.message) for each in status.conditions)), "")


def waiting_condition(status: GroupStatus) -> GroupCondition | None:
    """Return the condition that says why a group waits; None if it does not wait."""
    return next((each for each in status.conditions if each.type == PodGroupConditionType.UNSCHEDULABLE), None)


@dataclass(slots=True)
class _Wish(Generic[V]):
    value: V
    mark: object
    due: float
    earliest: float


@dataclass(slots=True)
class _Pace:
    last: float
    changes: int


class Debounce(Generic[K, V]):
    """The requested values by key. All times are seconds.

    Args:
        shortest: the distance between two writes of one key …
        longest: … which doubles up to this while the key keeps changing, and is reset after twice this time without a write.
    """

    def __init__(self, *, shortest: float = 0.2, longest: float = 2.0) -> None:
        self._gaps = Backoff(shortest, longest)
        self._wishes: dict[K, _Wish[V]] = {}
        self._paces: dict[K, _Pace] = {}  # ordered by the last write, oldest first
        self._under_way: set[K] = set()
        self._rests: dict[K, float] = {}
        self._heap: list[tuple[float, int, K]] = []  # an entry is valid while its time is that of the wish
        self._pushed = 0

    def __len__(self) -> int:
        return len(self._wishes)

    def __contains__(self, key: object) -> bool:
        return key in self._wishes

    def wish(self, key: K, value: V, now: float, *, hold: float = 0.0, mark: object = None, is_urgent: bool = False) -> None:
        """Wish that `value` is written `hold` seconds after its `mark` changed; if urgent, with the shortest distance only."""
        wish = self._wishes.get(key)
        if wish is not None and wish.mark == mark:
            wish.value = value
            due = max(wish.earliest, min(wish.due, now + hold))
            if due != wish.due:
                wish.due = due
                self._push(key, due)
            return
        pace = self._paces.get(key)
        earliest = now if pace is None else pace.last + self._gaps.after(0 if is_urgent else pace.changes)
        earliest = max(earliest, self._rests.get(key, 0.0))
        due = max(now + hold, earliest)
        self._wishes[key] = _Wish(value, mark, due, earliest)
        self._push(key, due)

    def begin(self, key: K) -> None:
        """Record that a write of `key` is in progress. The key is not due before `end`, so that writes keep their order."""
        self._under_way.add(key)

    def end(self, key: K) -> None:
        """Record that the write of `key` is finished."""
        self._under_way.discard(key)
        wish = self._wishes.get(key)
        if wish is not None:
            self._push(key, wish.due)

    def rest(self, key: K, until: float) -> None:
        """Record that a write of `key` was refused. `key` is not written again before `until`."""
        self._rests[key] = until
        wish = self._wishes.get(key)
        if wish is not None:
            wish.earliest = max(wish.earliest, until)
            wish.due = max(wish.due, until)
            self._push(key, wish.due)

    def drop(self, key: K) -> None:
        """Remove the pending write of `key`, since the API server has the right value already."""
        self._wishes.pop(key, None)

    def due(self, now: float) -> list[tuple[K, V]]:
        """Remove and return the values to be written now, at most `_MOST`."""
        ready: list[tuple[K, V]] = []
        while len(ready) < _MOST and (first := self._first()) is not None and first[0] <= now:
            heapq.heappop(self._heap)
            key = first[2]
            ready.append((key, self._wishes.pop(key).value))
            pace = self._paces.pop(key, None)
            is_busy = pace is not None and now - pace.last < 2 * self._gaps.most
            self._paces[key] = _Pace(now, pace.changes + 1 if pace is not None and is_busy else 0)
        return ready

    def next_due(self) -> float | None:
        """Return when the next wish is due; None if there is none, or only wishes whose write is in progress."""
        first = self._first()
        return None if first is None else first[0]

    def forget_quiet(self, now: float) -> None:
        """Remove the distances of keys without recent writes, and rests that are over."""
        for key in [key for key, until in self._rests.items() if until <= now]:
            del self._rests[key]
        while self._paces:
            key = next(iter(self._paces))
            if now - self._paces[key].last < 2 * self._gaps.most:
                return
            del self._paces[key]

    def _push(self, key: K, due: float) -> None:
        self._pushed += 1
        heapq.heappush(self._heap, (due, self._pushed, key))

    def _first(self) -> tuple[float, int, K] | None:
        """Return the entry that is due first and may be written. Invalid entries are removed."""
        while self._heap:
            due, _, key = self._heap[0]
            wish = self._wishes.get(key)
            if wish is not None and wish.due == due and key not in self._under_way:
                return self._heap[0]
            heapq.heappop(self._heap)
        return None
