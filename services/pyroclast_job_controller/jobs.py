"""Keeps every Job where its lifecycle says it should be: view, decide, carry out, record. No rule of a Job is in this file."""

from __future__ import annotations

from typing import Final

import structlog

from pyroclast.api.enums import Action, JobEventReason, JobReason
from pyroclast.api.records import Command, Job, JobStatus
from pyroclast.api.types import JOBS, Key
from pyroclast.kube.errors import Conflict, NotFound
from pyroclast.kube.events import Reference
from pyroclast.kube.queue import WorkQueue
from pyroclast.lifecycle import notices, occurrences
from pyroclast.lifecycle.jobs import decide
from pyroclast.lifecycle.views import Decision, JobView, Notice, Order
from pyroclast_job_controller.job_actions import JobActions
from pyroclast_job_controller.memory import JobMemory, Memories
from pyroclast_job_controller.recent import LIFETIME
from pyroclast_job_controller.refusal import Hindrance, NamespaceGoing, Refusal, Trouble
from pyroclast_job_controller.shared import Shared
from pyroclast_job_controller.views import view_of

__all__ = ["JobController"]

log = structlog.get_logger()

_ROUNDS: Final = 8
"""Decisions in one go: a Job that is made new takes three; more than a few mean that what we do does not show."""

_FIRST_RETRY: Final = 0.005
"""Seconds before a Job that was refused something is tried again; each further refusal doubles it: 15 tries take 164 s."""

_LONGEST_RETRY: Final = 1000.0
"""Ceiling of that delay."""

_PASSING: Final = 1.0
"""Seconds to wait for something that passes by itself."""

_CLOSED: Final = 5.0
"""Seconds until a Job whose namespace is being deleted is looked at again, doubling up to …"""

_LONGEST_CLOSED: Final = 300.0
"""… this: a namespace that somebody's finalizer holds may stay for days."""


class JobController:
    """Level-triggered: a key says only "look at this Job"; what to do is decided from the view, never from the event.

    Args:
        shared: what is watched, and the ways out.
        actions: the writes.
        memories: what is remembered beside.
        queue: keys of Jobs to look at.
        most_requeues: how often a Job that is refused something is tried before it is terminated; -1: for ever.
    """

    def __init__(
        self, shared: Shared, actions: JobActions, memories: Memories, queue: WorkQueue[Key], *, most_requeues: int = 15
    ) -> None:
        self._caches, self._recorder, self._metrics, self._now = shared.caches, shared.recorder, shared.metrics, shared.now
        self._actions, self._memories, self._queue = actions, memories, queue
        self._most_requeues = most_requeues

    def order(self, key: Key, command: Command) -> None:
        """A user wants something done with the Job of `key`; if there is none, nobody does it."""
        job = self._caches.jobs.get(key)
        if job is None:
            return
        what = f"Start to execute command {command.action}, and clean it up to make sure executed not more than once."
        self._tell(job, Notice("Normal", JobEventReason.COMMAND_ISSUED, what))
        message = command.message or f"{command.action} was asked for by a command"
        self._memories.of(job).orders.append(Order(command.action, JobReason.COMMAND_ISSUED, message))
        self._queue.add(key)

    async def reconcile(self, key: Key) -> None:
        """Look at the Job of `key` and do what is to be done."""
        job = self._caches.jobs.get(key)
        if job is None:
            self._memories.forget(key)
            return
        memory = self._memories.of(job)
        if self._now() < memory.closed_until:
            self._queue.add_at(key, memory.closed_until)
            return
        if memory.is_new:
            self._catch_up(key, memory)
        try:
            await self._bring_about(key, memory)
        except Conflict:
            self._queue.add_rate_limited(key)  # somebody was faster: decide again from what they wrote
        except NamespaceGoing:
            self._closed(key, memory)
        except (NotFound, Hindrance) as obstacle:
            log.info("job.waits", job=str(key), reason=str(obstacle))
            self._queue.add_after(key, _PASSING)
        except Trouble as trouble:
            log.warning("job.troubled", job=str(key), reason=trouble.reason.value, message=str(trouble))
            memory.was_refused = True
            self._tell_once(job, memory, Notice("Warning", trouble.reason, str(trouble)))
            self._queue.add_rate_limited(key)
        except Refusal as refusal:
            memory.was_refused = True
            await self._refused(key, memory, refusal)
        else:
            memory.refusals, memory.next_try, memory.closed, memory.was_refused = 0, 0.0, 0, False
        if self._caches.pods.is_ahead(job.metadata.uid):
            self._queue.add_after(key, LIFETIME)

    def _catch_up(self, key: Key, memory: JobMemory) -> None:
        """Remember what happened to the pods while nobody watched."""
        memory.is_new = False
        view = self._view(key, memory)
        for occurrence in occurrences.missed(view.job, view.pods, view.now) if view else ():
            if all(known.pod != occurrence.pod for known in memory.occurrences):
                log.info("pod.missed", job=str(key), pod=occurrence.pod)
                memory.notice(occurrence)

    def _closed(self, key: Key, memory: JobMemory) -> None:
        """Leave the Job alone for a while, ever longer: nothing can be made in its namespace any more."""
        pause = min(_CLOSED * 2.0 ** min(memory.closed, 60), _LONGEST_CLOSED)
        log.info("job.namespace_going", job=str(key), seconds=pause)
        memory.closed, memory.closed_until, memory.was_refused = memory.closed + 1, self._now() + pause, True
        self._queue.add_at(key, memory.closed_until)

    async def _bring_about(self, key: Key, memory: JobMemory) -> None:
        """Decide and act until nothing more is to be done now."""
        for _ in range(_ROUNDS):
            view = self._view(key, memory)
            if view is None:
                return
            decision = decide(view)
            for effect in decision.effects:
                await self._actions.carry_out(view, memory, effect)
            if not decision.conclusive:
                if not decision.effects:
                    self._settle(view, memory, decision)
                continue
            if await self._record(view, memory, decision.status):
                self._settle(view, memory, decision)
                continue  # a phase was entered: its work begins at once
            self._settle(view, memory, decision)
            self._wait(view, memory, decision)
            return
        log.warning("job.restless", job=str(key), rounds=_ROUNDS)
        self._queue.add_rate_limited(key)

    def _view(self, key: Key, memory: JobMemory) -> JobView | None:
        job = self._caches.jobs.get(key)
        return view_of(self._caches, job, memory, self._now()) if job and job.metadata.uid == memory.uid else None

    async def _record(self, view: JobView, memory: JobMemory, status: JobStatus | None) -> bool:
        """Write the status if it has changed and its turn has come; whether the Job is in another phase now, or at another
        version.
        """
        if status is None:
            return False  # an unchanged status costs no write
        old = view.job.status
        moved = (status.state.phase, status.version, status.retry_count) != (old.state.phase, old.version, old.retry_count)
        pause = memory.pace.wait()
        if pause and not moved:
            self._queue.add_after(view.job.key, pause)
            return False
        await self._actions.write_status(view.job, status)
        memory.pace.written()
        if status.state.phase is not old.state.phase:
            self._metrics.entered(view.job.key, view.job.spec.queue, status.state.phase)
            log.info(
                "job.phase",
                job=str(view.job.key),
                old=old.state.phase.value,
                new=status.state.phase.value,
                reason=status.state.reason,
                message=status.state.message,
                version=status.version,
            )
        return moved

    def _settle(self, view: JobView, memory: JobMemory, decision: Decision) -> None:
        """What `decision` was about is done: say so and forget it."""
        memory.settle(decision)
        for notice in decision.notices:
            self._tell(view.job, notice)

    def _wait(self, view: JobView, memory: JobMemory, decision: Decision) -> None:
        """Nothing more can be done now: say why, and arrange to look again in time."""
        for response in decision.armed:
            self._tell_once(view.job, memory, notices.armed(response), about=response.occurrence.uid)
        pending = notices.unscheduled(view.job, view.group)
        if pending:
            self._tell_once(view.job, memory, pending)
        if decision.look_again_at is not None:
            self._queue.add_at(view.job.key, decision.look_again_at)
        if decision.obstacle:
            raise Refusal(JobEventReason.POD_GROUP_ERROR, f"Failed to create PodGroup, err: {decision.obstacle}")

    async def _refused(self, key: Key, memory: JobMemory, refusal: Refusal) -> None:
        """Say why the Job cannot get on, keep its status true, and try again later; give up when it has been refused too
        often.
        """
        view = self._view(key, memory)
        if view is None:
            return
        log.info("job.refused", job=str(key), reason=refusal.reason.value, message=str(refusal), times=memory.refusals + 1)
        self._tell_once(view.job, memory, Notice("Warning", refusal.reason, str(refusal)))
        try:
            await self._record(view, memory, decide(view, idle=True).status)
        except Conflict:
            log.debug("job.conflict", job=str(key))  # it is looked at again in any case
        now = self._now()
        if now < memory.next_try:  # woken before its time: that does not count as a try
            self._queue.add_at(key, memory.next_try)
            return
        if 0 <= self._most_requeues <= memory.refusals:
            self._give_up(key, view.job, memory, refusal)
            return
        memory.next_try = now + min(_FIRST_RETRY * 2.0 ** min(memory.refusals, 60), _LONGEST_RETRY)
        memory.refusals += 1
        self._queue.add_at(key, memory.next_try)

    def _give_up(self, key: Key, job: Job, memory: JobMemory, refusal: Refusal) -> None:
        """Have the Job terminated."""
        memory.refusals = 0
        message = f"Job failed on action {Action.SYNC_JOB} for retry limit reached"
        self._tell(job, Notice("Normal", JobEventReason.EXECUTE_ACTION, message))
        memory.orders.append(Order(Action.TERMINATE_JOB, JobReason.REQUEUE_LIMIT_REACHED, str(refusal)))
        self._queue.add(key)

    def _tell_once(self, job: Job, memory: JobMemory, notice: Notice, *, about: str = "") -> None:
        if memory.told.get(f"{notice.reason}{about}") != notice.message:
            memory.told[f"{notice.reason}{about}"] = notice.message
            self._tell(job, notice)

    def _tell(self, job: Job, notice: Notice) -> None:
        self._recorder.event(Reference.of(job, JOBS), notice.type, notice.reason.value, notice.message)
