"""The reservations of nodes in one session."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass

from pyroclast_scheduler.model.reservations import Reservation


@dataclass(slots=True)
class Reserved:
    """The reservations of nodes, now and at the start of the session.

    `current`: the reservations by job, None if no plugin makes any.

    `before`: the jobs with a reservation at the session start.
    """

    current: Mapping[str, Reservation] | None = None
    before: frozenset[str] = frozenset()

    def begin(self, current: Mapping[str, Reservation], before: Collection[str]) -> None:
        """Set the reservations of a plugin. The plugin may change `current` afterwards."""
        self.current, self.before = current, frozenset(before)

    def concerns(self, job: str) -> bool:
        """Whether the job of that key has a reservation, or had one at the start of the session."""
        return job in self.before or job in (self.current or ())

    def released(self) -> frozenset[str]:
        """Return the jobs whose reservation ended in this session."""
        return self.before.difference(self.current or ())
