"""A cause of waiting: its reason, and its text, which is only worked out when it is written."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from pyroclast.api.pending import PendingReason
from pyroclast.lifecycle.times import format_time
from pyroclast.resources import durations

__all__ = ["Cause", "Withheld"]


@dataclass(frozen=True, slots=True)
class Cause:
    """Why a job waits. `sentence`: what the original says of it, where it is true; `explain` gives the numbers, in words."""

    reason: PendingReason
    explain: Callable[[], str]
    sentence: str = ""

    def __str__(self) -> str:
        return f"{self.reason}: {self.explain()}"


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
