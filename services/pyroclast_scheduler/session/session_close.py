"""The end of a session: the status of each PodGroup, the records of waiting jobs, the allocated amounts of each queue."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec
import numpy as np

from pyroclast.api import decisions, keys
from pyroclast.api import waiting_reasons as pending
from pyroclast.api.enums import PodGroupConditionType, PodGroupPhase
from pyroclast.lifecycle.gang.groups import GroupCondition, GroupStatus
from pyroclast.lifecycle.seats.contract import is_seat
from pyroclast_scheduler.model.causes import Cause, WaitingRecord
from pyroclast_scheduler.model.fit_errors import ALL_UNAVAILABLE
from pyroclast_scheduler.model.jobs import Condition, Job
from pyroclast_scheduler.model.node_columns import Floats
from pyroclast_scheduler.model.queues import lineage
from pyroclast_scheduler.model.reservations import KeptPlace, read
from pyroclast_scheduler.model.tasks import TaskStatus, readable_seconds
from pyroclast_scheduler.session.outcome import Note, Outcome, WaitingTask
from pyroclast_scheduler.session.recovery import Recovery
from pyroclast_scheduler.session.session import Session
from pyroclast_scheduler.session.unschedulable import WAITING, unschedulable_job
from pyroclast_scheduler.session.waiting_causes import cause_of


def record_of(session: Session, job: Job, cause: Cause, status: GroupStatus) -> WaitingRecord:
    """Return the record of a job that waits for `cause`. `status`: the new status of its PodGroup."""
    message, before = _said(status), _said(job.facts.group.status)
    summary = pending.summary_of(message) or str(cause)
    is_new = message != before or not message
    return WaitingRecord(
        cause.reason,
        summary.partition(": ")[2],
        job.facts.queue,
        session.job_key(job),
        tuple(cause.short()) if is_new else None,
        cause.holder,
    )


def _said(status: GroupStatus) -> str:
    return next((each.message for each in status.conditions if each.type == PodGroupConditionType.UNSCHEDULABLE), "")


_WAITING_PHASES = frozenset({PodGroupPhase.PENDING, PodGroupPhase.INQUEUE, PodGroupPhase.UNKNOWN})
_STARTED_PHASES = frozenset({PodGroupPhase.RUNNING, PodGroupPhase.UNKNOWN})
_KEPT = frozenset({TaskStatus.PIPELINED, TaskStatus.ALLOCATED})
_SEATED = (TaskStatus.ALLOCATED, TaskStatus.BINDING)
_OURS = frozenset(pending.PendingReason)
_RENEWED = 60.0  # seconds after which a condition is updated even if only numbers in its message changed
_BARE = GroupStatus()


def close(session: Session, *, timestamp: str) -> Outcome:
    """Close the plugins and return the results to be written. `timestamp`: the present time, RFC 3339."""
    session.once(Recovery).release()
    session.jobs.update([(key, job) for key, job in session.others.items() if job.is_changed])  # plugins report these too
    session.close_plugins()
    _end_reservations(session)
    _report_reservations(session)
    report, reserved = session.report, session.reserved
    unready: dict[str, int] = {}
    outcome = Outcome(
        notes=report.notes,
        warnings=report.warnings,
        queues=_queues(session),
        unready=unready,
        reservations=reserved.current,
        released=reserved.released(),
        lapsed=session.promises.observe(),
        unkept=session.promises.ended,
        measures=report.measures,
        let_in=report.let_in,
        retried=session.equivalents.selected,
        ranked_by=session.plugins.ranked_by,
    )
    for job in session.jobs.values():
        if _is_unexplained(session, job):
            continue
        outcome.seen.add(job.facts.key)
        may_wait = job.is_pending or any(job.tally[status] for status in WAITING)
        cause = cause_of(session, job) if may_wait else None
        status = _status(session, job, cause, timestamp)
        differs = _differs(job.facts.group.status, status)
        if differs:
            outcome.statuses[job.facts.key] = status
        elif status == _BARE:
            outcome.bare.append(job.facts.key)
        if status.phase in _WAITING_PHASES:
            _explain(session, job, status, cause, outcome)
        else:
            _explain_started(session, job, cause, outcome, is_news=differs)
        if job.tally[TaskStatus.PIPELINED] or job.tally[TaskStatus.ALLOCATED]:
            _note_kept(session, job, outcome)
        if job.facts.tasks and not job.is_ready:
            unready[job.facts.key] = job.facts.min_available - job.tally.ready
        if _is_incomplete(session, job):
            outcome.incomplete.append(job.facts.key)
        elif not differs and not job.is_changed:
            unschedulable = unschedulable_job(session, job, reason="" if cause is None else cause.reason)
            outcome.unschedulable += () if unschedulable is None else (unschedulable,)
    outcome.faults = frozenset(report.faults)
    return outcome


def _note_kept(session: Session, job: Job, outcome: Outcome) -> None:
    """Record the room that pods of `job` occupy in this session without being bound."""
    for task in job.tasks:
        if task.status in _KEPT:
            is_coming = task.status is TaskStatus.PIPELINED
            outcome.kept[task.uid] = KeptPlace(task.facts, session.names[task.row], job.facts.queue, is_coming)


def _is_unexplained(session: Session, job: Job) -> bool:
    """Whether the session has not tried `job` itself, so that its earlier cause stays valid until the next session."""
    return job.facts.key in session.equivalents.unexplained and not (job.is_changed or job.fit_errors or job.is_limited)


def _end_reservations(session: Session) -> None:
    """End all earlier reservations if no plugin makes any, since their annotations and metrics would remain."""
    if session.reserved.current is not None:
        return
    known = session.ports.reservations
    if known is None:
        known = read((facts.group for facts in session.snapshot.all_jobs.values()), session.ports.scheduler)
    for key, state in known.items():
        job = session.job(key)
        if job is not None:
            session.note(job, "Normal", "ReservationReleased", state.released("the plugin reservation is not configured"))
    session.reserved.begin({}, known)


def _report_reservations(session: Session) -> None:
    """Add to the condition of each target how many nodes are reserved for it, and until when."""
    for key, reservation in (session.reserved.current or {}).items():
        job = session.job(key)
        said = None if job is None else job.conditions.get(PodGroupConditionType.UNSCHEDULABLE)
        if job is not None and said is not None:
            job.conditions[said.type] = said._replace(message=f"{said.message}; {reservation}")


def left_out_status(old: GroupStatus, message: str, timestamp: str) -> GroupStatus | None:
    """Return the status of a PodGroup that is left out of all sessions, with `message`; None if it has this status already."""
    condition = Condition(PodGroupConditionType.UNSCHEDULABLE, pending.PendingReason.LEFT_OUT, message)
    new = msgspec.structs.replace(old, conditions=_conditions(old.conditions, [condition], "", timestamp))
    return new if _differs(old, new) else None


def _status(session: Session, job: Job, cause: Cause | None, timestamp: str) -> GroupStatus:
    old, tally = job.facts.group.status, job.tally
    phase = _phase(job)
    stated = list(job.conditions.values())
    # pods without requests count as scheduled before they have a node, so that no plugin sets a condition for their gang
    if cause is not None and phase in _WAITING_PHASES and PodGroupConditionType.UNSCHEDULABLE not in job.conditions:
        stated.append(Condition(PodGroupConditionType.UNSCHEDULABLE, cause.reason))
    said = [_worded(old.conditions, each, cause, now=session.ports.now) for each in stated]
    if keys.TRACEPARENT in job.facts.group.metadata.annotations:
        said = [_traced(session, job, phase, each) for each in said]
    return GroupStatus(
        phase=phase,
        conditions=_conditions(old.conditions, said, session.uid, timestamp),
        running=tally[TaskStatus.RUNNING],
        succeeded=tally[TaskStatus.SUCCEEDED],
        failed=tally[TaskStatus.FAILED],
    )


def _phase(job: Job) -> PodGroupPhase:
    tally = job.tally
    if job.phase is PodGroupPhase.COMPLETED and tally.total == tally.finished:
        return PodGroupPhase.COMPLETED  # also after its pods were deleted
    scheduled = tally.scheduled + (job.facts.releasing_on_node if tally[TaskStatus.RELEASING] else 0)
    if tally[TaskStatus.RUNNING] and PodGroupConditionType.UNSCHEDULABLE in job.conditions:
        return PodGroupPhase.UNKNOWN
    if scheduled < job.facts.min_available and job.phase in _STARTED_PHASES and any(tally[status] for status in _SEATED):
        scheduled += sum(is_seat(task.uid) for task in job.tasks if task.status in _SEATED)  # their pods need no new admission
    if scheduled >= job.facts.min_available:
        return PodGroupPhase.COMPLETED if scheduled == tally.finished else PodGroupPhase.RUNNING
    return PodGroupPhase.INQUEUE if job.phase is PodGroupPhase.INQUEUE else PodGroupPhase.PENDING


def _worded(old: Sequence[GroupCondition], new: Condition, cause: Cause | None, *, now: float) -> Condition:
    """Return `new` with the summary of the cause. While only numbers differ, the old message is kept for `_RENEWED` seconds."""
    if cause is None or new.type != PodGroupConditionType.UNSCHEDULABLE:
        return new
    before = next((each for each in old if each.type == new.type and each.reason == new.reason), None)
    if before is not None and now < (readable_seconds(before.last_transition_time) or 0.0) + _RENEWED:
        sentence, summary = pending.parted(before.message)
        if summary.startswith(f"{cause.reason}:") and sentence == new.message:
            return new._replace(message=before.message)
    return new._replace(message=pending.joined(new.message, str(cause)))


def _traced(session: Session, job: Job, phase: PodGroupPhase, new: Condition) -> Condition:
    """Return the condition Scheduled with the data of the last placement, for the trace, and other conditions unchanged."""
    if new.type != PodGroupConditionType.SCHEDULED:
        return new
    if job.was_touched and phase in _WAITING_PHASES:
        return new._replace(message=decisions.written(decisions.Decision(session.uid, len(session.names))))
    old = job.facts.group.status.conditions
    return new._replace(message=next((each.message for each in old if (each.type, each.reason) == new[:2]), ""))


def _conditions(old: Sequence[GroupCondition], new: Sequence[Condition], uid: str, timestamp: str) -> tuple[GroupCondition, ...]:
    """Return the old conditions, without those of a waiting code that are not set again, with `new` ones in place or appended."""
    types = {condition.type for condition in new}
    result = [each for each in old if each.type in types or each.reason not in _OURS]
    for condition in new:
        at = next((i for i, each in enumerate(result) if each.type == condition.type), None)
        if at is not None and _says(result[at]) == (condition.type, "True", condition.reason, condition.message):
            continue
        made = GroupCondition(
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


def _says(condition: GroupCondition) -> tuple[str, str, str, str]:
    return condition.type, condition.status, condition.reason, condition.message


def _differs(old: GroupStatus, new: GroupStatus) -> bool:
    counts = (old.phase, old.running, old.succeeded, old.failed) != (new.phase, new.running, new.succeeded, new.failed)
    return counts or list(map(_says, old.conditions)) != list(map(_says, new.conditions))


def _explain(session: Session, job: Job, status: GroupStatus, cause: Cause | None, outcome: Outcome) -> None:
    """Add the cause, the Events and the pod conditions of a waiting PodGroup to the outcome."""
    if cause is not None and status.phase is not PodGroupPhase.UNKNOWN:
        outcome.records[job.facts.key] = record_of(session, job, cause, status)
    text, summary = "", "" if cause is None else pending.parted(_said(status))[1] or str(cause)
    if job.cause is not None and cause is not None and job.is_pending:
        outcome.notes.append(Note(job.facts.key, "Normal", "Unschedulable", pending.joined(cause.sentence, summary)))
    is_being_bound = job.is_ready and not job.tally[TaskStatus.PENDING]
    if not is_being_bound and (job.facts.tasks or (summary and status.phase is not PodGroupPhase.INQUEUE)):
        text = job.fit_error(session.names)
        outcome.notes.append(_unschedulable(job, text, summary))
    _report_pods(session, job, outcome, text, summary=summary)


def _explain_started(session: Session, job: Job, cause: Cause | None, outcome: Outcome, *, is_news: bool) -> None:
    """Add the Events of a started PodGroup, and the conditions of its pending pods. `is_news`: the status changed."""
    if is_news:
        outcome.notes.append(Note(job.facts.key, "Normal", "Scheduled", "pod group is ready"))
    text, summary = "", "" if cause is None else str(cause)
    if _has_waiting_members(job):
        text = job.fit_error(session.names)
        outcome.notes.append(_unschedulable(job, text, summary))
    _report_pods(session, job, outcome, text, summary=summary)


def _has_waiting_members(job: Job) -> bool:
    """Whether pods wait for a node. Pods behind a scheduling gate do not count."""
    has_pending = bool(job.tally[TaskStatus.PENDING])
    return has_pending and any(task.status is TaskStatus.PENDING and not task.facts.gates for task in job.tasks)


def _unschedulable(job: Job, text: str, summary: str) -> Note:
    """Return the warning for a PodGroup with pending pods. `text`: the state of its pods. `summary`: the cause, if known."""
    waiting, total = job.tally[TaskStatus.PENDING], len(job.facts.tasks)
    sentence = f"{waiting}/{total} tasks in gang unschedulable: {text}" if total else ""
    return Note(job.facts.key, "Warning", "Unschedulable", pending.joined(sentence, summary))


def _report_pods(session: Session, job: Job, outcome: Outcome, text: str = "", *, summary: str) -> None:
    tally = job.tally
    if not any(tally[status] for status in WAITING):
        return
    members = tally.valid if session.job_invalid(job) is not None else None
    for task in job.tasks:
        if task.status not in WAITING or task.facts.gates or is_seat(task.uid):
            continue
        reason, message = job.scheduling_reason(task, session.names)
        if not job.facts.group.keeps_phase:
            reason = "Unschedulable"  # for which cluster autoscalers look; Volcano's other reasons are for its own groups
        if not message:
            text = text or job.fit_error(session.names)
            message = text or ALL_UNAVAILABLE
        nominated = session.names[task.row] if task.status is TaskStatus.PIPELINED and task.evicted_others else ""
        outcome.waiting.append(WaitingTask(task.facts, reason, pending.joined(message, summary), nominated, members))


def _is_incomplete(session: Session, job: Job) -> bool:
    """Whether some members are placed, too few for the gang to start, while other members wait.

    A member whose bind the API server refused counts as waiting until it really has a node. So does a member on a node that was
    deleted before the kubelet accepted the member.
    """
    held = job.tally[TaskStatus.BOUND] + job.tally[TaskStatus.BINDING]
    if not held or not session.all_of("job_ready"):
        return False
    astray = 0
    if session.snapshot.refused and job.tally[TaskStatus.BINDING]:
        astray = sum(task.status is TaskStatus.BINDING and task.uid in session.snapshot.refused for task in job.tasks)
    if session.snapshot.has_placeholders and job.tally[TaskStatus.BOUND]:
        bound = (task for task in job.tasks if task.status is TaskStatus.BOUND)
        astray += sum(not task.facts.has_started and not session.snapshot.is_ready[task.row] for task in bound)
    if job.tally.ready - astray + job.tally.pending_best_effort >= job.facts.min_available:
        return False
    return bool(astray) or _has_waiting_members(job)


def _queues(session: Session) -> dict[str, dict[str, int]]:
    """Return the allocated amounts of each queue with its descendants; other resources than cpu and memory only if used."""
    totals: dict[str, Floats] = {name: np.zeros(len(session.dimensions)) for name in session.queues}
    sums, elsewhere = session.queue_sums, session.ports.elsewhere
    for own in sums.keys() | elsewhere.keys():
        allocated = session.dimensions.sums(elsewhere.get(own, {})) + session.moves.queue_changes.get(own, 0.0)
        if own in sums:
            allocated = allocated + sums[own].allocated
        for queue in lineage(own, session.snapshot.queues):
            totals[queue.name] = totals[queue.name] + allocated
    return {
        name: {
            dimension: int(amount)
            for dimension, amount in zip(session.dimensions.names, total.tolist(), strict=True)
            if amount or dimension in {"cpu", "memory"}
        }
        for name, total in totals.items()
    }
