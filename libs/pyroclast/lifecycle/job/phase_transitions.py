"""The state machine of a Job: the effect of each action in each phase as a table, and the phase that follows from the pods.

`decide` reads the table to carry out an action, `policy_decisions` to see which actions have an effect, and the test of its
completeness and the diagram in the docs read all of it. So the table stands apart from the code that decides.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum
from typing import Final

from pyroclast.api.enums import Action, JobPhase, JobReason, PodPhase
from pyroclast.api.records import JobSpec
from pyroclast.lifecycle.gang.members import min_available, needed_pods, total_replicas
from pyroclast.lifecycle.gang.plan import Keep
from pyroclast.lifecycle.job.status import Counts


class PhaseWork(Enum):
    """The work of an action. An action writes the status and marks pods at most.

    Pods are deleted in the phase that follows, depending on the pods that exist then.
    """

    SYNC = "sync"
    """The action does nothing of its own: the phase creates missing pods and deletes surplus pods."""
    RELEASE = "release"
    """The action raises the version, so that all pods have an older version.

    The new phase deletes these pods, except the pods that `Keep` names, and deletes the PodGroup and the plugin objects.
    """
    RELEASE_PART = "release part"
    """The action marks the pods of one task or one partition, or one pod, and the new phase deletes the marked pods.

    Other pods, the PodGroup and the plugin objects stay.
    """


@dataclass(frozen=True, slots=True)
class Move:
    """One cell of the table.

    `to`: the phase that the Job enters at once; None when the rule of the present phase (`progress`) decides. `keep`: the pods
    that stay. `counts_as_retry`: whether the action increases `status.retryCount`.
    """

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
    **dict.fromkeys((JobPhase.NEW, JobPhase.PENDING, JobPhase.RUNNING), _row(_SYNC, _ALIVE)),
    # A Job with pods on a lost node stays in one of the next three phases, so these phases still accept other commands.
    JobPhase.RESTARTING: _row(
        Move(PhaseWork.RELEASE, Keep.NONE),
        {Action.SYNC_JOB: _SYNC},
        dict.fromkeys(_TARGETED, Move(PhaseWork.RELEASE_PART)),
        _ENDS,
    ),
    JobPhase.ABORTING: _row(_STAY, _other_ends(Action.ABORT_JOB), {Action.RESUME_JOB: _RESUME}),
    JobPhase.COMPLETING: _row(_STAY, _other_ends(Action.COMPLETE_JOB)),
    JobPhase.ABORTED: _row(_STAY, {Action.RESUME_JOB: _RESUME}),
    **dict.fromkeys((JobPhase.COMPLETED, JobPhase.TERMINATING, JobPhase.TERMINATED, JobPhase.FAILED), _row(_STAY)),
}

PROGRESS: Final[Mapping[JobPhase, tuple[JobPhase, ...]]] = {
    JobPhase.NEW: (JobPhase.PENDING, JobPhase.RUNNING),
    JobPhase.PENDING: (JobPhase.RUNNING, JobPhase.FAILED),
    JobPhase.RUNNING: (JobPhase.COMPLETED, JobPhase.FAILED, JobPhase.PENDING),
    JobPhase.RESTARTING: (JobPhase.PENDING, JobPhase.FAILED),
    JobPhase.ABORTING: (JobPhase.ABORTED, JobPhase.PENDING),
    JobPhase.COMPLETING: (JobPhase.COMPLETED,),
    JobPhase.TERMINATING: (JobPhase.TERMINATED,),
    **dict.fromkeys((JobPhase.ABORTED, JobPhase.COMPLETED, JobPhase.TERMINATED, JobPhase.FAILED), ()),
}
"""For each phase, the phases to which the rule of the phase may lead without any action."""


def move(phase: JobPhase, action: str) -> Move:
    """Return the cell of `phase` and `action`; an unknown action is treated like an internal action."""
    row = MOVES[phase]
    return row.get(action, row[Action.ENQUEUE_JOB])


def has_effect(phase: JobPhase, action: str) -> bool:
    """Whether `action` changes a Job in `phase` beyond the work that the phase does by itself."""
    cell = move(phase, action)
    return cell.work is PhaseWork.RELEASE_PART or (
        cell.work is PhaseWork.RELEASE and (cell.to is not None or cell.keep is Keep.NONE)
    )


def is_ending(phase: JobPhase) -> bool:
    """Whether a Job in `phase` only deletes its objects and creates none."""
    return MOVES[phase][Action.SYNC_JOB].work is not PhaseWork.SYNC


def meaningless(phase: JobPhase, action: str) -> str:
    """Return why `action` has no effect on a Job in `phase`; empty when the action has its effect."""
    known = [known for known in Action if known.is_for_policies]
    if action not in (*known, Action.SYNC_JOB):
        return f"that is no action of a Job, which are {', '.join(known)}"
    cell = MOVES[phase][action]
    if cell.to is not None or cell.work is PhaseWork.RELEASE_PART or action == Action.SYNC_JOB:
        return ""
    if phase is JobPhase.RESTARTING:
        return "" if action == Action.RESTART_JOB else "the Job restarts already"
    return f"that means nothing to a Job that is {phase or JobPhase.PENDING}"


@dataclass(frozen=True, slots=True)
class Change:
    """A phase to enter, with the one-word reason and the message for `status.state`."""

    to: JobPhase
    reason: JobReason | None
    message: str


def following_phase(
    phase: JobPhase, spec: JobSpec, counts: Counts, retries: int, *, may_run_at_first: bool = False
) -> Change | None:
    """Return the change of phase that follows from `counts`; None when the phase stays.

    `retries` is `status.retryCount`. `may_run_at_first`: whether the pods may run before the first write of the status.
    """
    match phase:
        case JobPhase.NEW:
            return (_pending(spec, counts) if may_run_at_first else None) or Change(JobPhase.PENDING, None, "")
        case JobPhase.PENDING:
            return _pending(spec, counts)
        case JobPhase.RUNNING:
            return _running(spec, counts)
        case JobPhase.RESTARTING:
            return _restarting(spec, counts, retries)
        case JobPhase.ABORTING | JobPhase.COMPLETING | JobPhase.TERMINATING if not counts.has_living:
            return Change(PROGRESS[phase][0], JobReason.PODS_RELEASED, "no pod is left that runs or waits")
    return None


def _pending(spec: JobSpec, counts: Counts) -> Change | None:
    started, wanted = counts.running + counts.succeeded + counts.failed, min_available(spec)
    if started < wanted:
        return None
    return Change(JobPhase.RUNNING, JobReason.MIN_AVAILABLE_REACHED, _reached(started, wanted, "needed", "started"))


def _reached(count: int, least: int, needed: str, done: str) -> str:
    """Return the text that `count` pods have `done` what at least `least` pods must do."""
    if count == least:
        return f"{count} of the {least} pods {needed} have {done}"
    return f"{count} pods have {done}, at least {least} {'was' if least == 1 else 'were'} needed"


def _running(spec: JobSpec, counts: Counts) -> Change | None:
    total, wanted = total_replicas(spec), min_available(spec)
    if total == 0:
        return None  # a Job that is scaled to zero may be scaled up again
    if spec.min_success is not None and counts.succeeded >= spec.min_success:
        message = _reached(counts.succeeded, spec.min_success, "that must succeed", "succeeded")
        return Change(JobPhase.COMPLETED, JobReason.MIN_SUCCESS_REACHED, message)
    if counts.succeeded + counts.failed == total:
        return _all_finished(spec, counts, wanted)
    if counts.pending > total - wanted:
        message = f"{counts.pending} of {total} pods are pending, {wanted} must run"
        return Change(JobPhase.PENDING, JobReason.NOT_ENOUGH_PODS, message)
    return None


def after_cut_off(spec: JobSpec, counts: Counts, cut_off: Mapping[str, str]) -> Change | None:
    """Return the end of a Job whose other pods can never be created; None while one of its pods lives.

    `cut_off`: the reason by task, see `plan.cut_off`. The Job fails if the gang needs a pod of these tasks. Otherwise the
    existing pods decide, as they do when all pods have ended.
    """
    if counts.has_living:
        return None
    needed = [why for task in spec.tasks if needed_pods(task) > 0 and (why := cut_off.get(task.name))]
    if needed or counts.succeeded + counts.failed < min_available(spec):
        return Change(JobPhase.FAILED, JobReason.TASK_MIN_AVAILABLE_NOT_REACHED, (needed or list(cut_off.values()))[0])
    return _all_finished(spec, counts, min_available(spec))


def _all_finished(spec: JobSpec, counts: Counts, wanted: int) -> Change:
    outcome = f"{counts.succeeded} pods succeeded, {counts.failed} failed"
    if wanted >= sum(map(needed_pods, spec.tasks)):
        for task in spec.tasks:
            phases = counts.by_task.get(task.name)
            if task.min_available is None or phases is None:
                continue
            succeeded = phases.get(PodPhase.SUCCEEDED, 0)
            if succeeded < task.min_available:
                message = f"task {task.name}: {succeeded} pods succeeded, {task.min_available} must"
                return Change(JobPhase.FAILED, JobReason.TASK_MIN_AVAILABLE_NOT_REACHED, message)
    if spec.min_success is not None:
        message = f"{outcome}, {spec.min_success} must succeed"
        return Change(JobPhase.FAILED, JobReason.MIN_SUCCESS_NOT_REACHED, message)
    if counts.succeeded >= wanted:
        return Change(JobPhase.COMPLETED, JobReason.ALL_TASKS_FINISHED, outcome)
    return Change(JobPhase.FAILED, JobReason.ALL_TASKS_FINISHED, f"{outcome}, {wanted} must succeed")


def _restarting(spec: JobSpec, counts: Counts, retries: int) -> Change | None:
    if retries >= spec.max_retry:
        return Change(JobPhase.FAILED, JobReason.MAX_RETRY_REACHED, f"restarted {retries} times, which is the limit")
    if total_replicas(spec) - counts.terminating < (min_available(spec)):
        return None
    return Change(JobPhase.PENDING, JobReason.PODS_RELEASED, "the pods of before have gone")
