"""The end of a session: which status each PodGroup should have, why pods wait, what each queue has."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from pyroclast.api import records
from pyroclast.api.enums import PodGroupConditionType, PodGroupPhase
from pyroclast_scheduler.framework.jobs import Condition, Job
from pyroclast_scheduler.framework.outcome import Note, Outcome, Waiting
from pyroclast_scheduler.framework.reasons import ALL_UNAVAILABLE
from pyroclast_scheduler.framework.session import Session
from pyroclast_scheduler.model.dimensions import Ints
from pyroclast_scheduler.model.statuses import TaskStatus

__all__ = ["close"]

_WAITING_PHASES = frozenset({PodGroupPhase.PENDING, PodGroupPhase.INQUEUE, PodGroupPhase.UNKNOWN})
_WAITING = frozenset({TaskStatus.PENDING, TaskStatus.PIPELINED, TaskStatus.ALLOCATED})
_ROOT = "root"
_BARE = records.PodGroupStatus()


def close(session: Session, *, timestamp: str) -> Outcome:
    """Let the plugins finish and say what is to be written. `timestamp`: now, RFC 3339."""
    session.close_plugins()
    outcome = Outcome(notes=session.notes, warnings=session.warnings, queues=_queues(session))
    unready: dict[str, int] = {}
    for job in session.jobs.values():
        status = _status(session, job, timestamp)
        differs = _differs(job.facts.group.status, status)
        if differs:
            outcome.statuses[job.facts.key] = status
        elif status == _BARE:
            outcome.bare.append(job.facts.key)
        if status.phase in _WAITING_PHASES:
            _explain(session, job, status.phase, outcome)
        else:
            if differs:
                outcome.notes.append(Note(job.facts.key, "Normal", "Scheduled", "pod group is ready"))
            _tell_pods(session, job, outcome)
        if job.facts.tasks and not job.is_ready:
            unready[job.facts.key] = job.facts.min_available - job.tally.ready
        if _is_incomplete(job):
            outcome.incomplete.append(job.facts.key)
    outcome.unready = unready
    return outcome


def _status(session: Session, job: Job, timestamp: str) -> records.PodGroupStatus:
    old, tally = job.facts.group.status, job.tally
    running = tally[TaskStatus.RUNNING]
    is_unschedulable = PodGroupConditionType.UNSCHEDULABLE in job.conditions
    scheduled = tally.scheduled + (job.facts.releasing_on_node if tally[TaskStatus.RELEASING] else 0)
    if running and is_unschedulable:
        phase = PodGroupPhase.UNKNOWN
    elif scheduled >= job.facts.min_available:
        phase = PodGroupPhase.COMPLETED if scheduled == tally.finished else PodGroupPhase.RUNNING
    elif job.phase is PodGroupPhase.INQUEUE:
        phase = PodGroupPhase.INQUEUE
    else:
        phase = PodGroupPhase.PENDING
    return records.PodGroupStatus(
        phase=phase,
        conditions=_conditions(old.conditions, list(job.conditions.values()), session.uid, timestamp),
        running=running,
        succeeded=tally[TaskStatus.SUCCEEDED],
        failed=tally[TaskStatus.FAILED],
    )


def _conditions(
    old: Sequence[records.PodGroupCondition], new: Sequence[Condition], uid: str, timestamp: str
) -> tuple[records.PodGroupCondition, ...]:
    """The old conditions with those of the same type replaced in place, and others added; an equal one is kept as it is."""
    result = list(old)
    for condition in new:
        at = next((i for i, each in enumerate(result) if each.type == condition.type), None)
        if at is not None and _says(result[at]) == (condition.type, "True", condition.reason, condition.message):
            continue
        made = records.PodGroupCondition(
            type=condition.type,
            status="True",
            reason=condition.reason,
            message=condition.message,
            last_transition_time=timestamp,
            transition_id=uid,
        )
        if at is None:
            result.append(made)
        else:
            result[at] = made
    return tuple(result)


def _says(condition: records.PodGroupCondition) -> tuple[str, str, str, str]:
    return condition.type, condition.status, condition.reason, condition.message


def _differs(old: records.PodGroupStatus, new: records.PodGroupStatus) -> bool:
    counts = (old.phase, old.running, old.succeeded, old.failed) != (new.phase, new.running, new.succeeded, new.failed)
    return counts or list(map(_says, old.conditions)) != list(map(_says, new.conditions))


def _explain(session: Session, job: Job, phase: PodGroupPhase, outcome: Outcome) -> None:
    """The event on a waiting PodGroup, and the conditions of its pods."""
    pending = job.tally[TaskStatus.PENDING]
    text = job.fit_error(session.names)
    is_being_bound = job.is_ready and not pending
    if not is_being_bound and not (phase is PodGroupPhase.INQUEUE and not job.facts.tasks):
        message = f"{pending}/{len(job.facts.tasks)} tasks in gang unschedulable: {text}"
        outcome.notes.append(Note(job.facts.key, "Warning", "Unschedulable", message))
    _tell_pods(session, job, outcome, text)


def _tell_pods(session: Session, job: Job, outcome: Outcome, text: str = "") -> None:
    tally = job.tally
    if not any(tally[status] for status in _WAITING):
        return
    members = tally.valid if session.job_invalid(job) is not None else None
    for task in job.tasks:
        if task.status not in _WAITING or task.facts.gates:
            continue
        reason, message = job.scheduling_reason(task, session.names)
        if not message:
            text = text or job.fit_error(session.names)
            message = text or ALL_UNAVAILABLE
        nominated = session.names[task.row] if task.status is TaskStatus.PIPELINED and task.evicted_others else ""
        outcome.waiting.append(Waiting(task.facts, reason, message, nominated, members))


def _is_incomplete(job: Job) -> bool:
    """Whether the job holds places that it cannot use: some members have theirs, too few for it to start, and others wait."""
    held = job.tally[TaskStatus.BOUND] + job.tally[TaskStatus.BINDING]
    if not held or not job.tally[TaskStatus.PENDING] or job.is_ready:
        return False
    return any(task.status is TaskStatus.PENDING and not task.facts.gates for task in job.tasks)


def _queues(session: Session) -> dict[str, dict[str, int]]:
    """What each queue has allocated, its descendants' included, in stored units; others than cpu and memory where they occur."""
    totals: dict[str, Ints] = {name: np.zeros(len(session.dimensions), dtype=np.int64) for name in session.queues}
    for job in session.jobs.values():
        if not job.allocated.any():
            continue
        seen: set[str] = set()
        name = job.facts.queue
        while name in totals and name not in seen:
            seen.add(name)
            totals[name] = totals[name] + job.allocated
            name = session.queues[name].facts.parent or _ROOT
    return {
        name: {
            dimension: int(amount)
            for dimension, amount in zip(session.dimensions.names, total.tolist(), strict=True)
            if amount or dimension in {"cpu", "memory"}
        }
        for name, total in totals.items()
    }
