"""Plugin gang: a job starts with its minimum of members or not at all, and its conditions tell why it waits."""

from __future__ import annotations

from collections.abc import Sequence

from pyroclast.api.enums import PodGroupConditionReason, PodGroupConditionType
from pyroclast_scheduler.model.jobs import Condition, Job
from pyroclast_scheduler.model.tasks import ALLOCATED, Task, TaskStatus
from pyroclast_scheduler.session.arguments import Arguments
from pyroclast_scheduler.session.extension_points import Extensions, Invalid, Preemptor, Vote
from pyroclast_scheduler.session.plugin_session import PluginSession
from pyroclast_scheduler.session.statement import goes_whole


class Gang:
    """The plugin gang, which has no arguments."""

    def __init__(self, arguments: Arguments) -> None:
        del arguments

    def open(self, session: PluginSession) -> Extensions:
        """Return the extensions of this plugin for one session."""
        return Extensions(
            job_order=lambda job: job.is_ready,
            sub_job_order=lambda _, sub_job: sub_job.is_ready,
            job_ready=lambda job: job.is_ready and job.are_roles_ready() and job.are_sub_jobs_ready(),
            sub_job_ready=lambda _, sub_job: sub_job.is_ready,
            sub_job_pipelined=lambda _, sub_job: Vote.PERMIT if sub_job.is_pipelined else Vote.REJECT,
            job_pipelined=_pipelined,
            job_starving=lambda job: job.is_starving,
            job_valid=_invalid,
            preemptable=_surplus,
            reclaimable=_surplus,
            spares_preempted=_is_at_minimum,
            spares_reclaimed=_is_at_minimum,
            unified_evictable=lambda _, candidates: list(candidates),  # the bundles already respect the minimums
            close=lambda: _close(session),
        )


def is_left_alone(job: Job) -> bool:
    """Whether a job that is not ready gets no condition, because all members were placed and some are being deleted."""
    tally, going = job.tally, job.facts.releasing_on_node
    if not going or tally[TaskStatus.PENDING] or tally[TaskStatus.PIPELINED]:
        return False
    return tally.scheduled + going >= job.facts.min_available


def _pipelined(job: Job) -> Vote:
    is_pipelined = job.is_pipelined and job.are_roles_ready(pipelined=True) and job.are_sub_jobs_ready(pipelined=True)
    return Vote.PERMIT if is_pipelined else Vote.REJECT


def _invalid(job: Job) -> Invalid | None:
    if job.enforces_roles and any(job.tally.role_valid(role) < least for role, least in job.facts.role_minimum.items()):
        return _lacks("pods of each task", PodGroupConditionReason.NOT_ENOUGH_PODS_OF_TASK)
    if not job.has_enough_sub_jobs:
        return _lacks("subGroups of each task", PodGroupConditionReason.NOT_ENOUGH_PODS_OF_TASK)
    valid, least = job.tally.valid, job.facts.min_available
    if valid < least:
        return _lacks("tasks", PodGroupConditionReason.NOT_ENOUGH_TASKS, f", valid: {valid}, min: {least}")
    return None


def _lacks(what: str, reason: PodGroupConditionReason, numbers: str = "") -> Invalid:
    """Return the refusal of a job that lacks pods. Only a change of the job itself can make it valid."""
    return Invalid(reason, f"Not enough valid {what} for gang-scheduling{numbers}", retry_when=())


def _surplus(preemptor: Task, job: Job, candidates: Sequence[tuple[Job, Task]]) -> list[tuple[Job, Task]]:
    """Return candidates that their jobs can lose without falling below their minimum."""
    del preemptor, job
    left: dict[str, int] = {}
    chosen: list[tuple[Job, Task]] = []
    for owner, task in candidates:
        if goes_whole(owner, task):
            chosen.append((owner, task))  # the minimum does not apply to a unit that is evicted as a whole
            continue
        key, ready, least = owner.facts.key, owner.tally.ready, owner.facts.min_available
        if task.facts.part:
            part = owner.sub_job_of(task)
            key, ready, least = part.uid, part.tally.ready, part.min_available
        ready = left.get(key, ready)
        if ready > least:
            left[key] = ready - 1
            chosen.append((owner, task))
    return chosen


def _is_at_minimum(job: Job, preemptor: Preemptor) -> bool:
    """Whether the job can lose no single task. Parts and units that are evicted as a whole have rules of their own."""
    del preemptor
    spec = job.facts.group.spec
    if spec.evicts_whole or spec.tree is not None or spec.sub_group_policy:
        return False
    return job.tally.ready <= job.facts.min_available


def _close(session: PluginSession) -> None:
    for job in session.jobs.values():
        if not job.facts.tasks:
            continue
        if job.is_ready:
            job.conditions[PodGroupConditionType.SCHEDULED] = Condition(
                PodGroupConditionType.SCHEDULED, PodGroupConditionReason.READY
            )
        elif not is_left_alone(job):
            tried = sum(
                task.status is TaskStatus.PENDING and (task.last or (task.status,))[0] in ALLOCATED
                for task in (job.tasks if job.was_touched else ())
            )
            lacking = max(1, job.facts.min_available - job.tally.ready - tried)
            total = max(job.facts.min_available, len(job.facts.tasks))
            message = f"{lacking}/{total} tasks in gang unschedulable: {job.fit_error(session.names)}"
            job.conditions[PodGroupConditionType.UNSCHEDULABLE] = Condition(
                PodGroupConditionType.UNSCHEDULABLE, PodGroupConditionReason.NOT_ENOUGH_RESOURCES, message
            )
