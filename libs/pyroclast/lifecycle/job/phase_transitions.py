"""The state machine of a Job as a table: what each action means in each phase.

Separate from the code that decides, so that it can be read and checked for completeness. The docs draw their picture from it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum
from typing import Final

from pyroclast.api.enums import Action, JobPhase
from pyroclast.lifecycle.gang.plan import Keep

__all__ = ["MOVES", "PROGRESS", "Move", "PhaseWork", "has_effect", "is_ending", "meaningless", "move"]


class PhaseWork(Enum):
    """What an action does. It writes the status, and at most marks pods; pods are deleted in the phase that follows, from what is
    seen there.
    """

    SYNC = "sync"
    """Nothing of its own: the phase makes the pods that are missing and deletes those that are too many."""
    RELEASE = "release"
    """Raise the version, so that all pods are of one before: the phase entered deletes them, but for those that `Keep` names, and
    gives up the PodGroup and the plugin objects.
    """
    RELEASE_PART = "release part"
    """Mark the pods of one task, one partition, or one pod: the phase entered deletes those; the others, the PodGroup and the
    plugin objects stay.
    """


@dataclass(frozen=True, slots=True)
class Move:
    """One cell of the table. `to` is the phase entered at once; without it the phase's own rule (`progress`) decides."""

    work: PhaseWork
    keep: Keep = Keep.OTHERS
    to: JobPhase | None = None
    counts_as_retry: bool = False


_TARGETED: Final = (Action.RESTART_TASK, Action.RESTART_POD, Action.RESTART_PARTITION)
_SYNC: Final = Move(PhaseWork.SYNC)
_STAY: Final = Move(PhaseWork.RELEASE, Keep.FINISHED)
_RESUME: Final = Move(PhaseWork.RELEASE, Keep.FINISHED, JobPhase.RESTARTING, counts_as_retry=True)

_ENDS: Final[Mapping[str, Move]] = {
    Action.ABORT_JOB: Move(PhaseWork.RELEASE, Keep.FINISHED, JobPhase.ABORTING),
    Action.COMPLETE_JOB: Move(PhaseWork.RELEASE, Keep.FINISHED, JobPhase.COMPLETING),
    Action.TERMINATE_JOB: Move(PhaseWork.RELEASE, Keep.FINISHED, JobPhase.TERMINATING),
}
_ALIVE: Final[Mapping[str, Move]] = {
    Action.RESTART_JOB: Move(PhaseWork.RELEASE, Keep.NONE, JobPhase.RESTARTING, counts_as_retry=True),
    **dict.fromkeys(_TARGETED, Move(PhaseWork.RELEASE_PART, Keep.OTHERS, JobPhase.RESTARTING, counts_as_retry=True)),
    **_ENDS,
}


def _other_ends(than: Action) -> Mapping[str, Move]:
    return {action: move for action, move in _ENDS.items() if action is not than}


def _row(otherwise: Move, *named: Mapping[str, Move]) -> Mapping[str, Move]:
    row: dict[str, Move] = dict.fromkeys(Action, otherwise)
    for moves in named:
        row.update(moves)
    return row


MOVES: Final[Mapping[JobPhase, Mapping[str, Move]]] = {
    JobPhase.NEW: _row(_SYNC, _ALIVE),
    JobPhase.PENDING: _row(_SYNC, _ALIVE),
    JobPhase.RUNNING: _row(_SYNC, _ALIVE),
    # A Job whose pods do not go, because their node is lost, stays in one of the next three: it still takes other commands.
    JobPhase.RESTARTING: _row(
        Move(PhaseWork.RELEASE, Keep.NONE),
        {Action.SYNC_JOB: _SYNC},
        dict.fromkeys(_TARGETED, Move(PhaseWork.RELEASE_PART)),
        _ENDS,
    ),
    JobPhase.ABORTING: _row(_STAY, _other_ends(Action.ABORT_JOB), {Action.RESUME_JOB: _RESUME}),
    JobPhase.COMPLETING: _row(_STAY, _other_ends(Action.COMPLETE_JOB)),
    JobPhase.ABORTED: _row(_STAY, {Action.RESUME_JOB: _RESUME}),
    JobPhase.COMPLETED: _row(_STAY),
    JobPhase.TERMINATING: _row(_STAY),
    JobPhase.TERMINATED: _row(_STAY),
    JobPhase.FAILED: _row(_STAY),
}

PROGRESS: Final[Mapping[JobPhase, tuple[JobPhase, ...]]] = {
    JobPhase.NEW: (JobPhase.PENDING,),
    JobPhase.PENDING: (JobPhase.RUNNING,),
    JobPhase.RUNNING: (JobPhase.COMPLETED, JobPhase.FAILED, JobPhase.PENDING),
    JobPhase.RESTARTING: (JobPhase.PENDING, JobPhase.FAILED),
    JobPhase.ABORTING: (JobPhase.ABORTED,),
    JobPhase.ABORTED: (),
    JobPhase.COMPLETING: (JobPhase.COMPLETED,),
    JobPhase.COMPLETED: (),
    JobPhase.TERMINATING: (JobPhase.TERMINATED,),
    JobPhase.TERMINATED: (),
    JobPhase.FAILED: (),
}
"""The phases that a phase's own rule may lead to, without any action."""


def move(phase: JobPhase, action: str) -> Move:
    """The cell of `phase` and `action`; an action that nobody knows is treated like an internal one."""
    row = MOVES[phase]
    return row.get(action, row[Action.ENQUEUE_JOB])


def has_effect(phase: JobPhase, action: str) -> bool:
    """Whether `action` does anything to a Job in `phase` that the phase does not do by itself."""
    cell = move(phase, action)
    return cell.work is PhaseWork.RELEASE_PART or (
        cell.work is PhaseWork.RELEASE and (cell.to is not None or cell.keep is Keep.NONE)
    )


def is_ending(phase: JobPhase) -> bool:
    """Whether a Job in `phase` only lets go of what it has."""
    return MOVES[phase][Action.SYNC_JOB].work is not PhaseWork.SYNC


def meaningless(phase: JobPhase, action: str) -> str:
    """Why `action` does not do what it says to a Job in `phase`; empty when it does."""
    known = [known for known in Action if known.is_for_policies]
    if action not in (*known, Action.SYNC_JOB):
        return f"that is no action of a Job, which are {', '.join(known)}"
    cell = MOVES[phase][action]
    if cell.to is not None or cell.work is PhaseWork.RELEASE_PART or action == Action.SYNC_JOB:
        return ""
    if phase is JobPhase.RESTARTING:
        return "" if action == Action.RESTART_JOB else "the Job restarts already"
    return f"that means nothing to a Job that is {phase or JobPhase.PENDING}"
