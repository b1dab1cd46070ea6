"""The status of a task inside the scheduler, and the sets of statuses that rules use."""

from __future__ import annotations

from enum import IntEnum
from typing import Final


class TaskStatus(IntEnum):
    """The status of a task. The values are positions in a tally. Allocated, Pipelined and Binding exist in the scheduler only."""

    PENDING = 0
    ALLOCATED = 1
    PIPELINED = 2
    BINDING = 3
    BOUND = 4
    RUNNING = 5
    RELEASING = 6
    SUCCEEDED = 7
    FAILED = 8
    UNKNOWN = 9

    @property
    def label(self) -> str:
        """The name of this status in messages for users."""
        return self.name.capitalize()


ALLOCATED: Final = frozenset({TaskStatus.BOUND, TaskStatus.BINDING, TaskStatus.RUNNING, TaskStatus.ALLOCATED})
READY: Final = ALLOCATED | {TaskStatus.SUCCEEDED}
SCHEDULED: Final = frozenset({TaskStatus.RUNNING, TaskStatus.BOUND, TaskStatus.SUCCEEDED, TaskStatus.FAILED})
EVICTABLE: Final = frozenset({TaskStatus.BOUND, TaskStatus.RUNNING})
VALID: Final = READY | {TaskStatus.PIPELINED, TaskStatus.PENDING}

_TERMINAL: Final = {"Succeeded": TaskStatus.SUCCEEDED, "Failed": TaskStatus.FAILED}


def status_of(phase: str, *, node_name: str, is_deleting: bool) -> TaskStatus:
    """Return the task status of a pod in `phase`.

    An empty phase, which the API server has not defaulted yet, counts as Pending.
    """
    if phase in _TERMINAL:
        return _TERMINAL[phase]
    if phase not in {"Pending", "Running", ""}:
        return TaskStatus.UNKNOWN
    if is_deleting:
        return TaskStatus.RELEASING
    if phase == "Running":
        return TaskStatus.RUNNING
    return TaskStatus.BOUND if node_name else TaskStatus.PENDING
