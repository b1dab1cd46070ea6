"""A cause of waiting: its reason, and its text, which is only worked out when it is written."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from pyroclast.api.pending import PendingReason

__all__ = ["Cause"]


@dataclass(frozen=True, slots=True)
class Cause:
    """Why a job waits. `sentence`: what the original says of it, where it is true; `explain` gives the numbers, in words."""

    reason: PendingReason
    explain: Callable[[], str]
    sentence: str = ""

    def __str__(self) -> str:
        return f"{self.reason}: {self.explain()}"
