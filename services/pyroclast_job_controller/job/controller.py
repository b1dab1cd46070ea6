"""The controller of Jobs: collects facts, decides, carries out effects and records Events. The rules are in the library."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

import structlog

from pyroclast.api.enums import Action, JobEventReason, JobPhase, JobReason
from pyroclast.api.records import Job, JobStatus
from pyroclast.api.types import JOBS, Key
from pyroclast.kube.basics.errors import Conflict, NotFound
from pyroclast.kube.watch.own_writes import LIFETIME
from pyroclast.kube.workqueue.sharded_queue import ShardedQueue
from pyroclast.lifecycle.effects import DeletePods, Notice, normal, warning
from pyroclast.lifecycle.gang.members import is_managed_elsewhere
from pyroclast.lifecycle.job import delays, job_events, tracked_pods, waits
from pyroclast.lifecycle.job.decide import decide
from pyroclast.lifecycle.job.facts import JobDecision, JobFacts, RequestedAction
from pyroclast.lifecycle.job.status import is_quiet
from pyroclast.lifecycle.times import format_duration
from pyroclast.resources.backoff import Backoff
from pyroclast.runtime.reconciler import IN_TURN, NOW, ON_CHANGE, Reconciler, Requeue
from pyroclast_job_controller.blocked import Blocked, NamespaceTerminating, TransientError
from pyroclast_job_controller.caches import Shared
from pyroclast_job_controller.commands import Orders
from pyroclast_job_controller.job.actions import JobActions
from pyroclast_job_controller.job.memory import JobMemories, JobMemory, facts_of
from pyroclast_job_controller.job.orphans import LostNodes, Orphans

log = structlog.get_logger()

_TRANSIENT_PAUSE: Final = 1.0
"""Seconds until the next try after a transient error."""

_NAMESPACE_PAUSES: Final = Backoff(5.0, 300.0)
"""The pauses between tries for a Job in a terminating namespace. A namespace with a finalizer may stay for days."""


class JobController(Reconciler[Job, JobFacts, JobDecision, JobMemory]):
    """Reconciles Jobs. A new Job takes three rounds of decisions.

    `most_requeues`: the number of tries before a refused Job is terminated; -1 for no limit. `lost_nodes`: deletes terminating
    pods of lost nodes; None to wait for such pods. `own_schedulers`: the names of the schedulers that this controller works with.
    `may_lack_group`: whether Jobs of one pod get no PodGroup.
    """

    def __init__(
        self,
        shared: Shared,
        actions: JobActions,
        memories: JobMemories,
        orders: Orders[Job],
        queue: ShardedQueue[Key],
        *,
        most_requeues: int = 15,
        lost_nodes: LostNodes | None = None,
        own_schedulers: Iterable[str] = (),
        may_lack_group: bool = False,
    ) -> None:
        super().__init__(shared, JOBS, decide, shared.caches.jobs, memories=memories, queue=queue)
        self._lost_nodes, self._orphans = lost_nodes, Orphans(shared)
        self._caches, self._metrics, self._pause = shared.caches, shared.metrics, memories.pause
        self._actions, self._orders, self._most_requeues = actions, orders, most_requeues
        self._schedulers, self._own_schedulers = shared.schedulers, frozenset(own_schedulers)
        self._may_lack_group = may_lack_group

    async def reconcile(self, key: Key) -> None:
        """Reconcile the Job of `key`, and delete orphaned PodGroups of earlier Jobs of this name."""
        await self._orphans.clear(key)
        await super().reconcile(key)

    async def _reconcile(self, key: Key, memory: JobMemory) -> None:
        known = self._caches.jobs.get(key)
        if known is not None and is_managed_elsewhere(known):
            return  # another controller creates its pods and writes its status
        if self._now() < memory.closed_until:
            self._queue.add_at(key, memory.closed_until)
            return
        try:
            await self._catch_up(key, memory)
            await super()._reconcile(key, memory)
        except Conflict:
            self._queue.add_rate_limited(key)
        except NamespaceTerminating:
            self._closed(key, memory)
        except (NotFound, TransientError) as obstacle:
            log.info("job.waits", job=str(key), reason=str(obstacle))
            self._queue.add_after(key, _TRANSIENT_PAUSE)
        except Blocked as refusal:
            await self._refused(key, memory, refusal)
        else:
            memory.got_on()
        if self._caches.pods.is_ahead(memory.uid):
            self._queue.add_after(key, LIFETIME)
        if self._lost_nodes is not None:
            again = await self._lost_nodes.give_up(self._caches.pods.members(memory.uid).values(), memory, self._now())
            if again is not None:
                self._queue.add_at(key, again)

    async def _catch_up(self, key: Key, memory: JobMemory) -> None:
        """Remember occurrences from the time without a controller, and check which pods that left the watch were deleted."""
        job = self._current(key, memory) if memory.is_new or memory.vanished else None
        if job is None:
            return
        facts = self._facts(job, memory)
        if memory.is_new:
            memory.vanished += job_events.missed(facts.job, facts.pods, facts.now)
            memory.deleted.update(tracked_pods.released(facts.job, facts.pods))
            memory.is_new = False
            if (fallen := delays.overlooked(facts)) is not None:
                memory.notice(fallen, facts.job)
        vanished = list(memory.vanished)
        for occurrence in await self._actions.really_gone(facts, vanished) if vanished else ():
            log.info("pod.missed", job=str(key), pod=occurrence.pod)
            memory.notice(occurrence, facts.job)
        memory.vanished = [occurrence for occurrence in memory.vanished if occurrence not in vanished]

    def _closed(self, key: Key, memory: JobMemory) -> None:
        """Delay the next try with a growing pause, because no object can be created in a terminating namespace."""
        pause = _NAMESPACE_PAUSES.after(memory.closed)
        log.info("job.namespace_terminating", job=str(key), seconds=pause)
        memory.closed, memory.closed_until, memory.was_refused = memory.closed + 1, self._now() + pause, True
        self._queue.add_at(key, memory.closed_until)

    def _facts(self, record: Job, memory: JobMemory) -> JobFacts:
        return facts_of(
            self._caches,
            record,
            memory,
            self._orders.of(record),
            self._now(),
            schedulers=self._schedulers.current,
            own_schedulers=self._own_schedulers,
            may_lack_group=self._may_lack_group,
        )

    async def _act(self, facts: JobFacts, memory: JobMemory, decision: JobDecision) -> Requeue:
        memory.forget(decision.needless)  # before the effects, after which these occurrences may seem to need a response
        is_complete = True
        for effect in decision.effects:
            is_complete = await self._actions.carry_out(facts, memory, effect) and is_complete
            if isinstance(effect, DeletePods):
                self._record(facts.job, *effect.notices)
        if not is_complete:  # write the status of a Job with more pods to create, and let the other Jobs in the queue come first
            if (job := self._current(facts.job.key, memory)) is not None:
                present = self._facts(job, memory)
                await self._write_status(present, memory, decide(present, idle=True).status)
            return IN_TURN
        if not decision.conclusive:
            if not decision.effects:
                self._done_with(facts, memory, decision)
            return NOW
        self._arm(facts, memory, decision)  # first, because a delay also begins when the status write fails
        moved = await self._write_status(facts, memory, decision.status)
        self._done_with(facts, memory, decision)
        if moved:
            return NOW  # the work of the new phase begins at once
        self._wait(facts, memory, decision)
        return ON_CHANGE

    def _caught_up(self, key: Key, memory: JobMemory) -> None:
        if not memory.vanished and not self._orphans.any_of(key):  # both are checked before the facts are collected
            self._queue.caught_up(key, within=self._pause(key))

    def _out_of_rounds(self, key: Key, decision: JobDecision) -> None:
        if any(isinstance(effect, DeletePods) and effect.in_order for effect in decision.effects):
            self._queue.add(key)  # the other Jobs in the queue come before the next deletions
        else:
            super()._out_of_rounds(key, decision)

    async def _write_status(self, facts: JobFacts, memory: JobMemory, status: JobStatus | None) -> bool:
        """Write `status` unless it must wait; return whether the next decision must follow at once."""
        if status is None:
            memory.quiet_since = None
            return False  # an unchanged status needs no write
        old = facts.job.status
        is_first = old.state.phase is JobPhase.NEW
        if is_quiet(old, status, has_no_group=facts.has_no_group) and (pause := memory.quiet_left(is_first=is_first)):
            self._queue.add_after(facts.job.key, pause)  # the pods run soon, and one write reports both changes
            return False
        moved = (status.state.phase, status.version, status.retry_count) != (old.state.phase, old.version, old.retry_count)
        pause = memory.pace.wait()
        if pause and not moved:
            self._queue.add_after(facts.job.key, pause)
            return False
        await self._actions.write_status(facts.job, status)
        memory.pace.written()
        memory.quiet_since = None
        if status.state.phase is not old.state.phase:
            self._metrics.entered(facts.job.key, facts.job.spec.queue, status.state.phase)
            old_phase, new = old.state.phase.value, status.state
            about = {"reason": new.reason, "message": new.message, "version": status.version}
            log.info("job.phase", job=str(facts.job.key), old=old_phase, new=new.phase.value, **about)
        return moved or status.arrays != old.arrays  # pods whose end the status now names are deleted at once

    def _done_with(self, facts: JobFacts, memory: JobMemory, decision: JobDecision) -> None:
        """Forget the occurrences and the Command that `decision` has handled, and record its Events."""
        memory.done_with(facts, decision)
        if decision.order is not None and decision.order.command:
            self._orders.done(facts.job, decision.order.command)
        self._record(facts.job, *decision.notices)

    def _wait(self, facts: JobFacts, memory: JobMemory, decision: JobDecision) -> None:
        """Record why the Job waits, and queue the Job again for the time of the next decision."""
        for pending in waits.waiting_notices(facts):
            self._record_once(facts.job, memory, pending)
        if decision.obstacle:
            raise Blocked(JobEventReason.POD_GROUP_ERROR, f"Failed to create PodGroup, err: {decision.obstacle}")
        if facts.memory.held:
            self._queue.add_at(facts.job.key, memory.next_try)
        for due in (waits.absence_recheck_at(facts), waits.examination_recheck_at(facts)):
            if due is not None:
                self._queue.add_at(facts.job.key, due)

    def _arm(self, facts: JobFacts, memory: JobMemory, decision: JobDecision) -> None:
        for response in memory.arm(decision.armed):
            message = f"Execute action {response.action} after {format_duration(response.delay)}"
            self._record(facts.job, normal(JobEventReason.EXECUTE_ACTION, message))
        if decision.recheck_at is not None:
            self._queue.add_at(facts.job.key, decision.recheck_at)

    async def _refused(self, key: Key, memory: JobMemory, refusal: Blocked) -> None:
        """Record the refusal, update the status, and queue the next try; terminate the Job after too many refusals."""
        counts = memory.was_stopped(refusal, self._now())
        job = self._current(key, memory)
        if job is None:
            return
        facts = self._facts(job, memory)
        log.info("job.refused", job=str(key), reason=refusal.reason.value, message=str(refusal), times=memory.refusals)
        self._record_once(facts.job, memory, warning(refusal.reason, str(refusal)))
        decision = decide(facts, idle=True)
        self._arm(facts, memory, decision)
        try:
            await self._write_status(facts, memory, decision.status)
        except Conflict:
            log.debug("job.conflict", job=str(key))  # the next try follows in any case
        if memory.seats_refused:
            self._queue.add(key)  # release the placement at once, not at the next try
        if counts and 0 <= self._most_requeues < memory.faults:
            memory.got_on()
            message = f"Job failed on action {Action.SYNC_JOB} for retry limit reached"
            self._record(facts.job, normal(JobEventReason.EXECUTE_ACTION, message))
            memory.given_up = RequestedAction(Action.TERMINATE_JOB, JobReason.REQUEUE_LIMIT_REACHED, str(refusal))
            self._queue.add(key)
            return
        self._queue.add_at(key, memory.next_try)

    def _record_once(self, job: Job, memory: JobMemory, notice: Notice) -> None:
        if memory.recorded.get(notice.reason) != notice.message:
            memory.recorded[notice.reason] = notice.message
            self._record(job, notice)
