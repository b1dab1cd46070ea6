"""A cause of waiting: its reason, its numbers, and its text, which is only worked out when it is written."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from pyroclast.api.pending import PendingReason

__all__ = ["Cause", "Shortage"]


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
    """Why a job waits. `sentence`: what the original says of it, where it is true; `explain` gives the numbers, in words.

    `short`: the resources that are short. `instead`: the cause where the order of the queue is to blame, asked for when the
    session ends, None if it is not. `holder`: the key of the job that nodes are kept for.
    """

    reason: PendingReason
    explain: Callable[[], str]
    sentence: str = ""
    short: Callable[[], Sequence[Shortage]] = tuple
    instead: Callable[[], Cause | None] | None = None
    holder: str = ""

    def __str__(self) -> str:
        return f"{self.reason}: {self.explain()}"

    def settled(self) -> Cause:
        """The cause when the order of jobs changes no more."""
        other = self.instead() if self.instead is not None else None
        return self if other is None else other
