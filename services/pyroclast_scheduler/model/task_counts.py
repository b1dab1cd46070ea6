"""Tallies: the number of tasks of a job in each status, in all and per role, and the gang conditions that follow from these."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from operator import itemgetter
from typing import Final

from pyroclast_scheduler.model.statuses import READY, VALID, TaskStatus

_IDLE: Final = len(TaskStatus)  # position of the count of pending tasks without requests
_WIDTH: Final = _IDLE + 1
_READY: Final[Callable[[Sequence[int]], tuple[int, ...]]] = itemgetter(*sorted(READY))
_VALID: Final[Callable[[Sequence[int]], tuple[int, ...]]] = itemgetter(*sorted(VALID))


class Tally:
    """The number of tasks in each status. `roles`: the same counts for each role."""

    __slots__ = ("counts", "roles")

    def __init__(self) -> None:
        self.counts = [0] * _WIDTH
        self.roles: dict[str, list[int]] = {}

    def copy(self) -> Tally:
        """Return an independent copy."""
        other = Tally()
        other.counts = self.counts.copy()
        other.roles = {role: counts.copy() for role, counts in self.roles.items()}
        return other

    def add(self, role: str, status: TaskStatus, *, is_best_effort: bool, count: int = 1) -> None:
        """Add `count` tasks of `role` in `status`; a negative count subtracts tasks."""
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
        """The number of all tasks, in any status."""
        return sum(self.counts[:_IDLE])

    @property
    def ready(self) -> int:
        """The number of tasks that are allocated, binding, bound, running or succeeded."""
        return sum(_READY(self.counts))

    @property
    def pending_best_effort(self) -> int:
        """The number of pending tasks without requests. A gang does not wait for these tasks."""
        return self.counts[_IDLE]

    @property
    def valid(self) -> int:
        """The number of tasks that can still count towards the minimum of the gang."""
        return sum(_VALID(self.counts))

    @property
    def scheduled(self) -> int:
        """The number of tasks that have or had a node: running, bound, succeeded or failed."""
        counts = self.counts
        return counts[TaskStatus.RUNNING] + counts[TaskStatus.BOUND] + self.finished

    @property
    def finished(self) -> int:
        """The number of tasks that succeeded or failed."""
        return self.counts[TaskStatus.SUCCEEDED] + self.counts[TaskStatus.FAILED]

    def missing(self, minimum: int, roles: Mapping[str, int]) -> int:
        """Return how many more tasks must be placed until `minimum` and the role minimums are satisfied, 0 if they are.

        Role minimums whose sum exceeds `minimum` are ignored.
        """
        lacking = max(0, minimum - self.ready - self.pending_best_effort)
        if roles and minimum >= sum(roles.values()):
            lacking = max(lacking, sum(max(0, least - self.role_ready(role)) for role, least in roles.items()))
        return lacking

    def role_ready(self, role: str, *, pipelined: bool = False) -> int:
        """Return the number of tasks of `role` that are ready or have no requests. `pipelined`: pipelined tasks count too."""
        counts = self.roles.get(role)
        if counts is None:
            return 0
        ready = int(sum(_READY(counts))) + counts[_IDLE]
        return ready + counts[TaskStatus.PIPELINED] if pipelined else ready

    def role_valid(self, role: str) -> int:
        """Return the number of tasks of `role` that can still count towards the minimum of the gang."""
        counts = self.roles.get(role)
        return 0 if counts is None else sum(_VALID(counts))

    def histogram(self) -> list[str]:
        """Return `<n> <Status>` for each status that occurs."""
        return [f"{self.counts[status]} {status.label}" for status in TaskStatus if self.counts[status]]
