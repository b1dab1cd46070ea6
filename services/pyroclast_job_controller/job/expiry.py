"""The deletion of finished Jobs after `ttlSecondsAfterFinished`, unless their flow still needs them."""

from __future__ import annotations

from typing import Final

import structlog

from pyroclast.api.enums import AfterKind, FlowPhase
from pyroclast.api.records import Job, JobFlow
from pyroclast.api.types import JOB_FLOWS, JOBS, Key
from pyroclast.kube.http.batches import SharedReads
from pyroclast.kube.http.response_records import found, has_deleted, record_of
from pyroclast.kube.workqueue.sharded_queue import ShardedQueue
from pyroclast.lifecycle.flow.jobs import controlling_flow, is_owned, retries_of
from pyroclast.lifecycle.gang.members import is_managed_elsewhere
from pyroclast.lifecycle.job import after
from pyroclast.lifecycle.times import parse_time
from pyroclast_job_controller.caches import Shared
from pyroclast_job_controller.job.earlier import waiting_for

log = structlog.get_logger()


_FLOW_IS_GOOD: Final = 1.0
"""Seconds for which one read of a flow serves all Jobs of the flow, because a flow may have 1.4 MB.

An older read does no harm, because a flow never removes a recorded end.
"""


class ExpiryController:
    """Deletes finished Jobs with `ttlSecondsAfterFinished` when their time is over."""

    def __init__(self, shared: Shared, queue: ShardedQueue[Key]) -> None:
        self._client, self._caches, self._now = shared.client, shared.caches, shared.now
        self._queue = queue
        self._flows: SharedReads[Key, JobFlow | None] = SharedReads(self._flow, shared.clock, _FLOW_IS_GOOD)
        self._caches.jobs.informer.on_change(self._changed)

    def enqueue_all(self) -> None:
        """Queue every Job in the shards of this replica, which has just begun to lead."""
        for job in self._caches.jobs.informer.values():
            self._changed(None, job)

    async def reconcile(self, key: Key) -> None:
        """Delete the Job of `key` if its time is over. The API server deletes all objects that the Job owns first.

        The Job is read from the API server before the deletion, because the watch may be late and its time may have changed.
        """
        known = self._caches.jobs.get(key)
        if known is None or not self._is_due(known):
            return
        answer = await found(self._client.get(JOBS, key))
        if answer is None or not self._is_due(job := record_of(answer, Job)):
            return
        flow = controlling_flow(job)  # its controller, which may be down now, must see the end of the Job
        if flow is not None and not end_is_recorded(await self._flows.get(flow), job):
            log.info("job.deletion_deferred", job=str(key), reason="its flow does not record yet how it ended")
            self._queue.add_rate_limited(key)
            return
        if any(not after.notes(waiting, job) for waiting in waiting_for(self._caches, AfterKind.JOB, job)):
            log.info("job.deletion_deferred", job=str(key), reason="a Job that waits for it does not record yet how it ended")
            self._queue.add_rate_limited(key)
            return
        if await has_deleted(self._client.delete(JOBS, key, uid=job.metadata.uid, propagation="Foreground")):
            log.info("job.expired", job=str(key), ttl_seconds=job.spec.ttl_seconds_after_finished)

    def _is_due(self, job: Job) -> bool:
        """Whether the time of `job` is over; if not, queue the Job for that time."""
        due = expires_at(job)
        if due is not None and due > self._now():
            self._queue.add_at(job.key, due)
        return due is not None and due <= self._now()

    async def _flow(self, key: Key) -> JobFlow | None:
        answer = await found(self._client.get(JOB_FLOWS, key))
        return None if answer is None else record_of(answer, JobFlow)

    def _changed(self, _: Job | None, new: Job | None) -> None:
        if new is not None and expires_at(new) is not None:
            self._queue.add(new.key)


def end_is_recorded(flow: JobFlow | None, job: Job) -> bool:
    """Whether the status of `flow` records how `job` ended, or never needs to.

    A flow no longer needs its Jobs if it was deleted, was created again under the same name, is being deleted, or has ended.
    """
    if flow is None or not is_owned(flow, job) or flow.metadata.is_terminating:
        return True
    if flow.status.state.phase in (FlowPhase.SUCCEED, FlowPhase.FAILED, FlowPhase.TERMINATING):
        return True
    phase, tries = job.status.state.phase, retries_of(job)
    recorded = (each for each in flow.status.job_status_list if each.name == job.metadata.name)
    return any(each.state == phase and each.retries >= tries for each in recorded)


def expires_at(job: Job) -> float | None:
    """Return when `ttlSecondsAfterFinished` of `job` is over, in seconds since the epoch.

    None when the Job has no such field, is not finished, is being deleted, or belongs to another controller. An aborted Job is
    not finished, because it may be resumed.
    """
    ttl, state = job.spec.ttl_seconds_after_finished, job.status.state
    if is_managed_elsewhere(job):
        return None
    if ttl is None or job.metadata.is_terminating or not state.phase.is_finished or not state.last_transition_time:
        return None
    return parse_time(state.last_transition_time) + ttl
