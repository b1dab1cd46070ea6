"""A cause for which a job waits: its reason, its numbers and its text. The text is only made when a message is written."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from pyroclast.api.waiting_reasons import PendingReason
from pyroclast.lifecycle.times import format_time
from pyroclast.resources import durations
from pyroclast_scheduler.model.triggers import Trigger


@dataclass(frozen=True, slots=True)
class Shortage:
    """A resource that is short, with amounts as quantities. None means that the amount does not matter for this cause.

    Attributes:
        asked: the amount that the gang requests, or one pod if `largest` is given.
        used: the amount that is allocated.
        promised: the amount that is reserved for enqueued jobs whose pods are not allocated yet.
        limit: the largest amount that may be used.
        free: the free amount of all nodes that are feasible for the pod.
        largest: the largest free amount of one such node.
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
    """The cause for which a job waits.

    Attributes:
        reason: the code of the cause.
        explain: makes the explanation with its numbers.
        sentence: the text that Volcano writes for this cause, empty if that text would be false.
        short: returns the resources that are short.
        instead: called when the session ends; returns another cause if the order of the queue keeps the job waiting, else None.
        holder: the key of the job for which nodes are reserved, empty if no reservation plays a part.
        retry_when: the triggers, besides a change of the queue, that may allow the job to be enqueued; None if they are unknown.
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
        """Return the cause that is final, after the session has ended and the order of the jobs is known."""
        other = self.instead() if self.instead is not None else None
        return self if other is None else other


@dataclass(frozen=True, slots=True)
class WaitingRecord:
    """The cause that a session found for a waiting job.

    Attributes:
        code: the code of the cause.
        sentence: the explanation without the code.
        queue: the name of the queue.
        rank: the position of the job in its queue as a sort key; a smaller one is served earlier.
        short: the resources that are short; None if the numbers of the previous record still apply.
        holder: the key of the job for which nodes are reserved, empty if there is no such job.
    """

    code: PendingReason
    sentence: str
    queue: str
    rank: tuple[Any, ...]
    short: Sequence[Shortage] | None = None
    holder: str = ""


@dataclass(slots=True)
class Withheld:
    """Pods of `queue` that could be evicted for a job, but have not run for `minimum` seconds yet.

    `until`: the earliest time at which one of these pods may be evicted, in seconds since the epoch.
    """

    queue: str
    minimum: float
    until: float
    pods: set[str] = field(default_factory=set)

    def __str__(self) -> str:
        count, minimum = len(self.pods), durations.shown(int(self.minimum * 1e9))
        pods = "1 pod that could make room has" if count == 1 else f"{count} pods that could make room have"
        first = "it may go" if count == 1 else "the first may go"
        return f"{pods} not run for the minimum of {minimum} of queue {self.queue} yet; {first} at {format_time(self.until)}"
