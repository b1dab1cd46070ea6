"""A cause of waiting: its reason, its numbers, and its text, which is only worked out when it is written."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from pyroclast.api.waiting_reasons import PendingReason
from pyroclast.lifecycle.times import format_time
from pyroclast.resources import durations
from pyroclast_scheduler.model.retry_conditions import Trigger

__all__ = ["Cause", "Shortage", "WaitingRecord", "Withheld"]


@dataclass(frozen=True, slots=True)
class Shortage:
    """A resource that is short, as quantities; None: it does not matter to the cause.

    `asked`: by the gang, or by one pod where `largest` is given. `used`, `promised`: by those who have a place, and by those who
    were let in. `limit`: what may be used in all. `free`: on all nodes that take the pod; `largest`: on one of them.
    """

    resource: str
    asked: str
    used: str | None = None
    promised: str | None = None
    limit: str | None = None
    free: str | None = None
    largest: str | None = None


@dataclass(frozen=True, slots=True)
class Cause:
    """Why a job waits. `sentence`: what Volcano says of it, where it is true; `explain` gives the numbers, in words.

    `short`: the resources that are short. `instead`: the cause where the order of the queue is to blame, asked for when the
    session ends, None if it is not. `holder`: the key of the job that nodes are kept for. `retry_when`: of a job that is not let
    in, what may change that, beside a change of its queue; None: that is not known.
    """

    reason: PendingReason
    explain: Callable[[], str]
    sentence: str = ""
    short: Callable[[], Sequence[Shortage]] = tuple
    instead: Callable[[], Cause | None] | None = None
    holder: str = ""
    retry_when: frozenset[Trigger] | None = None

    def __str__(self) -> str:
        return f"{self.reason}: {self.explain()}"

    def settled(self) -> Cause:
        """The cause when the order of jobs changes no more."""
        other = self.instead() if self.instead is not None else None
        return self if other is None else other


@dataclass(frozen=True, slots=True)
class WaitingRecord:
    """What a session found out of a job that waits. `sentence`: without the code.

    `short`: None where the numbers of before stand, as in the sentence. `rank`: its place in its queue, smaller first.
    `holder`: the job that nodes are kept for, empty where none are.
    """

    code: PendingReason
    sentence: str
    queue: str
    rank: tuple[Any, ...]
    short: Sequence[Shortage] | None = None
    holder: str = ""


@dataclass(slots=True)
class Withheld:
    """Pods of `queue` that could make room for a job, but have not run for `minimum` seconds. The first may go at `until`."""

    queue: str
    minimum: float
    until: float
    pods: set[str] = field(default_factory=set)

    def __str__(self) -> str:
        count, minimum = len(self.pods), durations.shown(int(self.minimum * 1e9))
        pods = "1 pod that could make room has" if count == 1 else f"{count} pods that could make room have"
        first = "it may go" if count == 1 else "the first may go"
        return f"{pods} not run for the minimum of {minimum} of queue {self.queue} yet; {first} at {format_time(self.until)}"
