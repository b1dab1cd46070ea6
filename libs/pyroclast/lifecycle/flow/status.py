"""The status of a flow: lists of Jobs by phase, conditions of Jobs and waiting entries, histories, and the next Jobs."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final

import msgspec

from pyroclast.api import keys
from pyroclast.api.enums import EntryPhase, FlowPhase, FlowReason, JobPhase
from pyroclast.api.records import (
    MOST_ROUNDS,
    FlowJobCondition,
    FlowJobPods,
    FlowJobStatus,
    FlowState,
    FlowStatus,
    Job,
    RunningHistory,
)
from pyroclast.lifecycle.flow.facts import FlowFacts
from pyroclast.lifecycle.flow.jobs import job_name, retries_of
from pyroclast.lifecycle.flow.next_starts import Obstacle
from pyroclast.lifecycle.flow.outputs import bounded, outputs_of
from pyroclast.lifecycle.flow.sizes import LISTS, fitted
from pyroclast.lifecycle.flow.units import EntryState, Stage, States, Unit, UnitStage, rounds_of
from pyroclast.lifecycle.times import duration_seconds, format_time, parse_time
from pyroclast.resources.durations import DurationError

_LISTS: Final[Mapping[str, str]] = {
    JobPhase.PENDING: "pending_jobs",
    JobPhase.RUNNING: "running_jobs",
    JobPhase.FAILED: "failed_jobs",
    JobPhase.COMPLETING: "completed_jobs",
    JobPhase.COMPLETED: "completed_jobs",
    JobPhase.TERMINATING: "terminated_jobs",
    JobPhase.TERMINATED: "terminated_jobs",
}
_OTHERS: Final = "unknown_jobs"
_ENDS: Final = frozenset(phase.value for phase in JobPhase if phase.is_finished)
_EXPLAINED: Final = (JobPhase.FAILED, JobPhase.TERMINATED, JobPhase.ABORTED)
"""Phases for which the flow's status repeats the message of the Job."""


def status_of(facts: FlowFacts, states: States, obstacles: Mapping[str, Obstacle], phase: FlowPhase) -> FlowStatus:
    """Return the status of a flow in phase `phase`.

    `states`: the states of its entries; `obstacles`: why Jobs that should be created wait, by name of the Job.

    Jobs that ended and were removed stay in the status. The Jobs come in the order of the flow, then by name for Jobs without an
    entry.
    """
    old = facts.flow.status
    known = {each.name: each for each in old.job_status_list}
    jobs = {**_strangers(facts), **facts.jobs}
    units = (unit for state in states.values() for unit in state.units)
    order = {unit.name: number for number, unit in enumerate(units)}
    names = sorted(jobs.keys() | known.keys(), key=lambda name: (order.get(name, len(order)), name))
    present = {name: followed(job, known.get(name), facts.now, facts.exit_codes) for name, job in jobs.items()}
    statuses = bounded(tuple(present[name] if name in present else known[name] for name in names), known)
    lists: dict[str, list[str]] = {name: [] for name in LISTS}
    conditions: dict[str, FlowJobCondition] = {}
    for each in statuses:
        if each.name not in present and each.state not in _ENDS:
            continue
        lists[_LISTS.get(each.state, _OTHERS)].append(each.name)
        job = jobs.get(each.name)
        before = old.conditions.get(each.name)
        if job:
            conditions[each.name] = _of_job(job, each)
        elif before is not None and before.phase == each.state:
            conditions[each.name] = before
        else:  # the Job ended and was removed
            start, end = each.start_timestamp, each.end_timestamp
            conditions[each.name] = FlowJobCondition(phase=each.state, create_time=start, completion_time=end)
    flow = facts.flow.metadata.name
    for name, state in states.items():
        _add_entry_condition(conditions, job_name(flow, name), state, obstacles)
    starts = [each.start_timestamp for each in statuses if each.start_timestamp]
    has_ended = phase in (FlowPhase.SUCCEED, FlowPhase.FAILED)
    has_token = old.state.phase is not FlowPhase.FAILED  # for a failed flow, `resume` carries the annotation out
    status = FlowStatus(
        **{name: tuple(members) for name, members in lists.items()},
        job_status_list=statuses,
        conditions=conditions,
        state=FlowState(phase=phase),
        start_time=old.start_time or (min(starts) if starts else None),
        completion_time=(old.completion_time or format_time(facts.now)) if has_ended else None,
        next_jobs=() if has_ended else tuple(_next(facts, states)),
        resumed=facts.flow.metadata.annotations.get(keys.FLOW_RESUME, "") if has_token else old.resumed,
    )
    return fitted(status)


def difference(old: FlowStatus, new: FlowStatus) -> dict[str, Any]:
    """Return the merge patch that turns `old` into `new`; empty when they are equal. Records omit empty fields."""
    patch: dict[str, Any] = {}
    for name, wire in zip(FlowStatus.__struct_fields__, FlowStatus.__struct_encode_fields__, strict=True):
        before, after = getattr(old, name), getattr(new, name)
        if before == after:
            continue
        if name == "conditions":
            changed = {key: _replaced(before.get(key), value) for key, value in after.items() if before.get(key) != value}
            patch[wire] = dict.fromkeys(before.keys() - after.keys()) | changed
        elif name == "state":
            patch[wire] = {"phase": after.phase.value or None}
        else:
            patch[wire] = after or None
    return patch


def _replaced(before: FlowJobCondition | None, after: FlowJobCondition) -> FlowJobCondition | dict[str, Any]:
    """Return `after` as a part of a merge patch that also removes the fields which only `before` has."""
    if before is None:
        return after
    body: dict[str, Any] = msgspec.to_builtins(after)
    gone = dict.fromkeys(msgspec.to_builtins(before).keys() - body.keys())
    if before.task_status_count and after.task_status_count:
        body["taskStatusCount"] = {task: None for task in before.task_status_count if task not in after.task_status_count} | {
            task: {"phase": dict.fromkeys(old.phase) | dict(state.phase)}
            if (old := before.task_status_count.get(task))
            else state
            for task, state in after.task_status_count.items()
        }
    return gone | body


def _strangers(facts: FlowFacts) -> dict[str, Job]:
    """Return the Jobs with another owner that the status counts, except those with the name of one of the flow's own Jobs.

    Under such a name, the status would show the Job of another owner as the flow's own.
    """
    flow = facts.flow.metadata.name
    ours: set[str] = set()
    for node in facts.graph.nodes.values() if facts.labelled else ():
        is_open = node.entry.loop is not None and node.entry.loop.items_from
        rounds = MOST_ROUNDS if is_open else rounds_of(node.entry)
        indices = [None] if rounds is None else range(min(rounds, MOST_ROUNDS))
        ours.update(job_name(flow, node.name, index) for index in indices)
    return {name: job for name, job in facts.labelled.items() if name not in ours}


def _of_job(job: Job, history: FlowJobStatus) -> FlowJobCondition:
    status = job.status
    phase = status.state.phase
    return FlowJobCondition(
        phase=phase.value,
        create_time=job.metadata.creation_timestamp,
        running_duration=status.running_duration,
        task_status_count=status.task_status_count,
        completion_time=history.end_timestamp if phase.is_finished else None,
        message=status.state.message if phase in _EXPLAINED else "",
    )


def _add_entry_condition(
    conditions: dict[str, FlowJobCondition], name: str, state: EntryState, obstacles: Mapping[str, Obstacle]
) -> None:
    """Add to the conditions what the Jobs of an entry do not show."""
    obstacle = next((obstacles[unit.name] for unit in state.wanted if unit.name in obstacles), None)
    reason = obstacle.reason if obstacle is not None else state.reason
    message = obstacle.message if obstacle is not None else state.message
    phase = {Stage.SKIPPED: EntryPhase.SKIPPED.value, Stage.WAITING: EntryPhase.WAITING.value}.get(state.stage)
    if phase is None and state.reason in (FlowReason.LOOP, FlowReason.CHOICE_MADE, FlowReason.EXPRESSION_FAILED):
        phase = state.phase.value
    if phase is not None:
        conditions[name] = FlowJobCondition(phase=phase, reason=reason.value if reason is not None else "", message=message)
    if state.stage is Stage.STARTED:
        for unit in state.wanted:
            _add_unit_condition(conditions, unit, obstacles.get(unit.name))


def _add_unit_condition(conditions: dict[str, FlowJobCondition], unit: Unit, obstacle: Obstacle | None) -> None:
    """Add to the conditions why a Job that is to be created again does not exist."""
    before = conditions.get(unit.name, FlowJobCondition())
    if unit.stage is UnitStage.RETRYING:
        message = obstacle.message if obstacle is not None else f"failed, run again at {format_time(unit.retry_at)}"
        reason = obstacle.reason if obstacle is not None else FlowReason.BACKOFF
        conditions[unit.name] = msgspec.structs.replace(
            before, phase=EntryPhase.RETRYING.value, reason=reason.value, message=message
        )
    elif unit.stage is UnitStage.LOST:
        message = obstacle.message if obstacle is not None else "the Job was deleted and is made again"
        reason = obstacle.reason if obstacle is not None else FlowReason.JOB_DELETED
        conditions[unit.name] = FlowJobCondition(phase=EntryPhase.WAITING.value, reason=reason.value, message=message)


def _next(facts: FlowFacts, states: States) -> Iterable[str]:
    """Yield the names of the Jobs that are not created, although all targets of their entry have started."""
    flow = facts.flow.metadata.name
    for name, state in states.items():
        if state.stage is not Stage.WAITING or name in facts.graph.cyclic:
            continue
        waits = facts.graph.nodes[name].waits
        if all(other in states and states[other].stage is not Stage.WAITING for other in waits):
            is_loop = facts.graph.nodes[name].entry.loop is not None
            yield job_name(flow, name, 0 if is_loop else None)


MOST_HISTORIES: Final = 100
"""How many phases of a Job the status keeps, the latest ones: a Job may be suspended every hour."""


def followed(job: Job, before: FlowJobStatus | None, now: float, exit_codes: Mapping[str, int | None]) -> FlowJobStatus:
    """Return the row of `job` in the status. `before`: the previous row, None when there is none."""
    status = job.status
    phase = status.state.phase
    # an empty state belongs to a Job that had just been created: its histories are those of an earlier try
    is_same_try = before is not None and bool(before.state) and before.retries >= retries_of(job)
    if before is not None and is_same_try and phase.is_finished and before.state == phase and before.end_timestamp:
        found = exit_codes.get(job.metadata.name)
        # a finished Job does not change otherwise
        return before if found is None else msgspec.structs.replace(before, exit_code=found)
    pods = _pods(job, before)
    outputs, omitted = outputs_of(job) if phase.is_finished else ("", "")
    return FlowJobStatus(
        name=job.metadata.name,
        state=phase.value,
        start_timestamp=job.metadata.creation_timestamp,
        end_timestamp=_end(job),
        restart_count=status.retry_count,
        running_histories=_histories(job, before.running_histories if before is not None else (), now, is_same_try=is_same_try),
        pod_failure_ratio=f"{pods.failed / pods.started:.2f}" if pods is not None else "",
        pods=pods,
        retries=max(retries_of(job), before.retries if before is not None else 0),
        exit_code=_exit_code(job, before, exit_codes),
        outputs=outputs,
        outputs_omitted=omitted,
    )


def _pods(job: Job, before: FlowJobStatus | None) -> FlowJobPods | None:
    """Count the pods that started and failed over all tries and restarts, as far as the controller observed them.

    The status of a Job counts the pods that exist now. The status of the flow also keeps the pods that a restart or retry
    removed. When failed pods disappear, they were removed, and the pods in their place have started since.
    """
    status = job.status
    present, failed = status.running + status.succeeded + status.failed + status.unknown, status.failed
    was = before.pods if before is not None and before.pods is not None else FlowJobPods()
    if before is not None and (before.retries < retries_of(job) or before.start_timestamp != job.metadata.creation_timestamp):
        was = msgspec.structs.replace(was, present=0, present_failed=0)  # these pods belonged to another Job, which is gone
    removed = max(0, was.present_failed - failed)
    pods = FlowJobPods(
        started=was.started + max(0, present - (was.present - removed)),
        failed=was.failed + max(0, failed - was.present_failed),
        present=present,
        present_failed=failed,
    )
    return pods if pods.started else None


def _end(job: Job) -> str | None:
    """Return when the Job ended: its creation plus its reported duration, else the transition to a finished phase."""
    created, duration = job.metadata.creation_timestamp, job.status.running_duration
    if created and duration:
        try:
            return format_time(parse_time(created) + duration_seconds(duration))
        except (ValueError, DurationError):  # another writer set the value
            return None
    return job.status.state.last_transition_time if job.status.state.phase.is_finished else None


def _exit_code(job: Job, before: FlowJobStatus | None, exit_codes: Mapping[str, int | None]) -> int | None:
    phase = job.status.state.phase
    if not phase.is_finished or phase is JobPhase.COMPLETED:
        return None
    found = exit_codes.get(job.metadata.name)
    return found if found is not None else before.exit_code if before is not None and before.state == phase else None


def _histories(job: Job, before: tuple[RunningHistory, ...], now: float, *, is_same_try: bool) -> tuple[RunningHistory, ...]:
    """Return the phases of the Job. The Job's conditions add the phases that the controller did not observe."""
    phase = job.status.state.phase.value
    if not phase or (before and before[-1].state == phase and is_same_try):
        return before
    histories = list(before)
    for state, since in _passed(job, histories[-1].state if histories and is_same_try else "", now):
        if histories:
            start = max(since, histories[-1].start_timestamp or since)
            histories[-1] = msgspec.structs.replace(histories[-1], end_timestamp=start)
            since = start
        histories.append(RunningHistory(start_timestamp=since, state=state))
    return tuple(histories[-MOST_HISTORIES:])


def _passed(job: Job, last: str, now: float) -> list[tuple[str, str]]:
    """Return the phases after `last` up to the current one, each with the time of its beginning (RFC 3339).

    The conditions of a Job list each of its phases once, in the order of their last beginning. If `last` is not a condition, the
    Job was created anew.
    """
    phase = job.status.state.phase.value
    conditions = [(each.status, each.last_transition_time or format_time(now)) for each in job.status.conditions]
    names = [status for status, _ in conditions]
    if phase not in names:
        return [(phase, job.status.state.last_transition_time or format_time(now))]
    first = names.index(last) + 1 if last in names else 0
    passed = conditions[first : names.index(phase) + 1]
    return passed or [(phase, conditions[names.index(phase)][1])]
