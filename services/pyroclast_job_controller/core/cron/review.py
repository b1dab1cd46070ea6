"""Reviews the Jobs of a CronJob: which run, which have ended, and which ended Jobs are kept."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace

from pyroclast.api.enums import JobPhase, JobReason
from pyroclast.api.records import CronJob, Job
from pyroclast.lifecycle.notices import Notice, normal, warning
from pyroclast_job_controller.core.cron.jobs import is_owned, scheduled_time
from pyroclast_job_controller.core.cron.state import CronState


@dataclass(frozen=True, slots=True)
class Review:
    """The result of a review: the new status of a CronJob, and the Jobs that are deleted.

    `prune` are the finished Jobs beyond the history limits. They may be deleted only after `state` is written, because they are
    the only record of their times until then.
    """

    state: CronState
    notices: tuple[Notice, ...]
    prune: tuple[Job, ...]


def review(cron_job: CronJob, jobs: Mapping[str, Job]) -> Review:
    """Review `jobs` by name: the Jobs that the CronJob owns and the Jobs that its status names.

    A Job that the controller created for a scheduled time is added to the status even if its creator did not write it there. The
    creator may have been killed between the two writes.
    """
    owned = [job for job in jobs.values() if is_owned(cron_job, job)]
    state, notices = CronState.of(cron_job), list[Notice]()
    for job in owned:
        state = _take(cron_job, job, state, notices)
    uids = {job.metadata.uid for job in owned}
    for active in state.active:
        if active.uid in uids:
            continue
        there = jobs.get(active.name)
        if there is None:
            text = f'Active job "{active.name}" no longer exists (UID: {active.uid})'
        elif there.metadata.uid != active.uid:
            text = (
                f'Active job reference "{active.name}" points to a different UID '
                f"(expected: {active.uid}, actual: {there.metadata.uid})"
            )
        else:
            continue  # the Job still runs, but the CronJob no longer owns it
        notices.append(warning("StaleReference", text))
        state = state.without(active.uid)
    return Review(state, tuple(notices), tuple(_superfluous(cron_job, owned)))


def _take(cron_job: CronJob, job: Job, state: CronState, notices: list[Notice]) -> CronState:
    meta, ended = job.metadata, job.status.state
    time = scheduled_time(cron_job, job)
    if time is not None:
        state = state.acted_on(time)
    if ended.phase is JobPhase.ABORTED:
        return state.without(meta.uid)  # no pod of it runs; when it is resumed, it is added again
    if not ended.phase.is_finished:
        if state.has(meta.uid) or meta.is_terminating:
            return state
        if time is not None:
            return state.with_job(job)
        text = f"Detected orphaned job forgotten or not managed by controller: {meta.name} (UID: {meta.uid})"
        notices.append(warning("OrphanedJob", text))
        return state
    if state.has(meta.uid):
        notices.append(normal("SawCompletedJob", f"Saw completed job: {meta.name} in active, remove"))
        state = state.without(meta.uid)
    if ended.phase is JobPhase.COMPLETED and ended.last_transition_time:
        latest = max(state.last_successful or "", ended.last_transition_time)
        state = replace(state, last_successful=latest)
    return state


def _superfluous(cron_job: CronJob, owned: Iterable[Job]) -> Iterator[Job]:
    """Yield the oldest finished Jobs beyond each history limit. Jobs that a user terminated by a Command are always kept."""
    there = sorted((job for job in owned if not job.metadata.is_terminating), key=_age)
    completed = [job for job in there if job.status.state.phase is JobPhase.COMPLETED]
    failed = [job for job in there if job.status.state.phase is JobPhase.FAILED or _was_given_up(job)]
    yield from completed[: max(0, len(completed) - cron_job.spec.successful_jobs_history_limit)]
    yield from failed[: max(0, len(failed) - cron_job.spec.failed_jobs_history_limit)]


def _was_given_up(job: Job) -> bool:
    """Return whether a policy or repeated failures terminated the Job."""
    state = job.status.state
    return state.phase is JobPhase.TERMINATED and state.reason not in ("", JobReason.COMMAND_ISSUED)


def _age(job: Job) -> tuple[bool, str, str]:
    """Return the sort key: oldest first, Jobs without a creation time last."""
    created = job.metadata.creation_timestamp
    return created is None, created or "", job.metadata.name
