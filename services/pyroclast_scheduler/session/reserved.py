"""What nodes are kept for, in one session."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass

from pyroclast_scheduler.model.reservations import Reservation

__all__ = ["Reserved"]


@dataclass(slots=True)
class Reserved:
    """`current`: the reservations by job, None while no plugin keeps any. `before`: whose they were when the session began."""

    current: Mapping[str, Reservation] | None = None
    before: frozenset[str] = frozenset()

    def begin(self, current: Mapping[str, Reservation], before: Collection[str]) -> None:
        """A plugin keeps reservations in `current`, which it may go on to change."""
        self.current, self.before = current, frozenset(before)

    def concerns(self, job: str) -> bool:
        """Whether nodes are kept for the job of that key, or were when the session began."""
        return job in self.before or job in (self.current or ())

    def released(self) -> frozenset[str]:
        """Whose reservations ended in this session."""
        return self.before.difference(self.current or ())
