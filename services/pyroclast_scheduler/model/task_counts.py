"""Tallies: how many tasks of a job stand in which status, in all and per role, and the gang conditions that follow from it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from operator import itemgetter
from typing import Final

from pyroclast_scheduler.model.statuses import READY, VALID, TaskStatus

__all__ = ["Tally"]

_IDLE: Final = len(TaskStatus)  # position of the count of pending tasks that ask for nothing
_WIDTH: Final = _IDLE + 1
_READY: Final[Callable[[Sequence[int]], tuple[int, ...]]] = itemgetter(*sorted(READY))
_VALID: Final[Callable[[Sequence[int]], tuple[int, ...]]] = itemgetter(*sorted(VALID))


class Tally:
    """Counts of tasks by status; `roles` holds the same counts for each role."""

    __slots__ = ("counts", "roles")

    def __init__(self) -> None:
        self.counts = [0] * _WIDTH
        self.roles: dict[str, list[int]] = {}

    def copy(self) -> Tally:
        """An independent copy."""
        other = Tally()
        other.counts = self.counts.copy()
        other.roles = {role: counts.copy() for role, counts in self.roles.items()}
        return other

    def add(self, role: str, status: TaskStatus, *, is_best_effort: bool, count: int = 1) -> None:
        """Count `count` more tasks of `role` in `status`; a negative count takes them away."""
        counts = self.roles.get(role)
        if counts is None:
            counts = self.roles[role] = [0] * _WIDTH
        for row in (self.counts, counts):
            row[status] += count
            if is_best_effort and status is TaskStatus.PENDING:
                row[_IDLE] += count

    def __getitem__(self, status: TaskStatus) -> int:
        return self.counts[status]

    @property
    def total(self) -> int:
        """All tasks."""
        return sum(self.counts[:_IDLE])

    @property
    def ready(self) -> int:
        """Tasks that have, or had, their place: allocated, binding, bound, running, succeeded."""
        return sum(_READY(self.counts))

    @property
    def pending_best_effort(self) -> int:
        """Pending tasks that ask for nothing; a gang does not wait for them."""
        return self.counts[_IDLE]

    @property
    def valid(self) -> int:
        """Tasks that can still count towards the gang."""
        return sum(_VALID(self.counts))

    @property
    def scheduled(self) -> int:
        """Tasks that a node has or had: running, bound, succeeded, failed."""
        counts = self.counts
        return counts[TaskStatus.RUNNING] + counts[TaskStatus.BOUND] + self.finished

    @property
    def finished(self) -> int:
        """Tasks that ended."""
        return self.counts[TaskStatus.SUCCEEDED] + self.counts[TaskStatus.FAILED]

    def missing(self, minimum: int, roles: Mapping[str, int]) -> int:
        """How many more tasks must at least be placed until `minimum` and the role minimums hold; 0 when they do.

        Role minimums do not count when they add up to more than `minimum`.
        """
        lacking = max(0, minimum - self.ready - self.pending_best_effort)
        if roles and minimum >= sum(roles.values()):
            lacking = max(lacking, sum(max(0, least - self.role_ready(role)) for role, least in roles.items()))
        return lacking

    def role_ready(self, role: str, *, pipelined: bool = False) -> int:
        """Tasks of `role` that have their place or need none, with the promised ones on demand."""
        counts = self.roles.get(role)
        if counts is None:
            return 0
        ready = int(sum(_READY(counts))) + counts[_IDLE]
        return ready + counts[TaskStatus.PIPELINED] if pipelined else ready

    def role_valid(self, role: str) -> int:
        """Tasks of `role` that can still count towards the gang."""
        counts = self.roles.get(role)
        return 0 if counts is None else sum(_VALID(counts))

    def histogram(self) -> list[str]:
        """`<n> <Status>` for each status that occurs."""
        return [f"{self.counts[status]} {status.label}" for status in TaskStatus if self.counts[status]]
