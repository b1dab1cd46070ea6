"""What keeps a Job from its pods: `spec.suspend`, and the earlier Jobs of `spec.after`.

A held Job has no pods and no PodGroup. It is Pending, whether it has not started yet or was stopped. A Job that is suspended
while it has pods is Aborting until its pods have ended.
"""

from __future__ import annotations

from typing import Final

import msgspec

from pyroclast.api import keys
from pyroclast.api.enums import Action, AfterPolicy, JobPhase, JobReason
from pyroclast.api.records import AfterStatus, Job, JobStatus
from pyroclast.api.types import JOB_FLOWS
from pyroclast.api.waiting_reasons import PendingReason
from pyroclast.lifecycle.gang import plan
from pyroclast.lifecycle.job import after
from pyroclast.lifecycle.job.facts import JobFacts, RequestedAction
from pyroclast.lifecycle.job.phase_transitions import Change

_BEFORE: Final = (JobPhase.NEW, JobPhase.PENDING)


def hold(facts: JobFacts) -> str:
    """Return why the Job has no pods for now, as a code and a sentence; empty when it may have pods.

    Earlier Jobs count only as the status has noted them, so that a Job which once may start always may start.
    """
    job = facts.job
    if job.spec.suspend:
        return f"{PendingReason.SUSPENDED}: {suspended_by(job)}"
    if job.status.state.phase in (*_BEFORE, JobPhase.RESTARTING) and after.is_held(job, job.status.after):
        state = _after(facts)
        why = after.never(job, state, facts.cycle)
        if why:
            return f"{PendingReason.WAITS_FOR_JOB}: never: {why}"
        return f"{PendingReason.WAITS_FOR_JOB}: {after.waits(job, state) or 'the earlier jobs have done what it waits for'}"
    return ""


def suspended_by(job: Job) -> str:
    """Return who suspended `job`, as a sentence."""
    owner = job.metadata.controller
    if job.metadata.annotations.get(keys.FLOW_SUSPENDED) == "true" and owner is not None and owner.kind == JOB_FLOWS.kind:
        return f"its JobFlow {owner.name} is suspended"
    if queue := job.metadata.labels.get(keys.KUEUE_QUEUE):
        return f"spec.suspend is true; Kueue starts the Job when the LocalQueue {queue} admits it"
    return "spec.suspend is true"


def suspension(facts: JobFacts) -> RequestedAction | None:
    """Return the action that stops a suspended Job that may have pods; None for another Job."""
    job, phase = facts.job, facts.job.status.state.phase
    if not job.spec.suspend or phase not in (*_BEFORE, JobPhase.RUNNING, JobPhase.RESTARTING):
        return None
    if phase is JobPhase.RESTARTING and job.status.retry_count >= job.spec.max_retry:
        return None  # the Job fails, as it has no retries left
    if phase in _BEFORE and facts.group is None and not facts.pods.has_living:
        return None
    return RequestedAction(Action.ABORT_JOB, JobReason.SUSPENDED, suspended_by(job))


def stopped(last: JobStatus) -> Change | None:
    """Return the change of a Job whose pods have ended because of its suspension; None for another Job."""
    if last.state.phase is not JobPhase.ABORTING or last.state.reason != JobReason.SUSPENDED:
        return None
    return Change(JobPhase.PENDING, JobReason.SUSPENDED, "")


def with_after(facts: JobFacts, following: JobStatus) -> JobStatus:
    """Return `following` with the present states of the earlier Jobs."""
    if facts.job.status.state.phase not in after.WAITING or not after.is_waiting(facts.job):
        return following
    return msgspec.structs.replace(following, after=_after(facts))


def is_released_by(facts: JobFacts, following: JobStatus | None) -> bool:
    """Whether the status write of `following` lets the Job start."""
    last = facts.job.status.after
    return following is not None and following.after != last and not after.is_held(facts.job, following.after)


def failure(facts: JobFacts) -> Change | None:
    """Return the end of a Job that can never start, as an earlier Job did not do what it waits for; None for another Job.

    Indexes of arrays that may run do so before.
    """
    job = facts.job
    if job.status.state.phase not in after.WAITING or not after.is_waiting(job) or job.spec.after_policy is not AfterPolicy.FAIL:
        return None
    state = _after(facts)
    if not after.is_held(job, state) and (state != job.status.after or facts.pods.has_living or plan.can_create(job, facts.pods)):
        return None
    why = after.never(job, state, facts.cycle)
    return Change(JobPhase.FAILED, JobReason.DEPENDENCY_NEVER_SATISFIED, why) if why else None


def pause(facts: JobFacts) -> str:
    """Return why a running Job has no pod now, if its next indexes wait for the same indexes of another Job; else empty."""
    if facts.pods.has_living or not after.is_waiting(facts.job):
        return ""
    return f"{PendingReason.WAITS_FOR_JOB}: {after.waits(facts.job, _after(facts))}"


def _after(facts: JobFacts) -> tuple[AfterStatus, ...]:
    return after.noted(facts.job, facts.earlier, facts.departed) if facts.earlier else facts.job.status.after
