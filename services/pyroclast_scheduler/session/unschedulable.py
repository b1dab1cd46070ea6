"""Decides after which changes an unschedulable job is tried again.

The problem: a waiting job must cost nothing until something changes that may help it, and must never miss such a change. The
obvious way retries every waiting job after every event, which costs jobs times events. kube-scheduler asks each plugin with a
queueing hint per pod and event. Here a refusal is turned around: the session knows why each job was refused, and names the
changes that could undo exactly that refusal, as triggers in an index. An event then costs only the jobs that it concerns.

Invariant: a trigger may fire in vain, but each change that may let the job start fires one of its triggers. Where a plugin
cannot say what would help, the trigger is any change. As a bound for triggers that are missing by mistake, each job is retried
after 300 periods.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import chain
from typing import Final

import numpy as np

from pyroclast_scheduler.model.hypernodes import is_constrained
from pyroclast_scheduler.model.jobs import Job
from pyroclast_scheduler.model.tasks import Task, TaskStatus
from pyroclast_scheduler.model.triggers import (
    AnyChange,
    AnyRoom,
    Eviction,
    Pause,
    QueueChange,
    QueueUse,
    Room,
    Trigger,
    UnschedulableJob,
)
from pyroclast_scheduler.session.minimum_run_time import withheld_by_job
from pyroclast_scheduler.session.recovery import Recovery
from pyroclast_scheduler.session.session import FILLING, Session

_LONG: Final = 10  # schedule periods until an external service is called again although nothing changed
_OWN: Final = frozenset({"preempt", "gangpreempt"})  # victims in the same queue
_OTHERS: Final = frozenset({"reclaim", "gangreclaim"})
_GANG: Final = frozenset({"gangpreempt", "gangreclaim"})  # victims on several nodes, also for one pod
WAITING: Final = frozenset({TaskStatus.PENDING, TaskStatus.PIPELINED, TaskStatus.ALLOCATED})


def unschedulable_job(session: Session, job: Job, *, reason: str) -> UnschedulableJob | None:
    """Return the triggers after which the job, which waits for `reason`, is tried again; None: in the next session."""
    tally = job.tally
    if not (job.is_pending or any(tally[status] for status in WAITING)) or job.facts.group.spec.hold is not None:
        return UnschedulableJob(job.facts, frozenset(_of_arrivals(session) if job.facts.promise.whole else ()))
    if session.has_reservation(job) or tally[TaskStatus.PIPELINED] or tally[TaskStatus.ALLOCATED]:
        return None
    triggers = _triggers(session, job)
    if triggers is None:
        return None
    kept = session.once(Recovery).kept
    if kept and not job.is_pending:
        triggers.add(Pause(max(1, min(each.left for each in kept))))  # then room is no longer kept, without any event
    if triggers and (session.asked_for.time or job.facts.key in session.once(withheld_by_job)):
        triggers.add(Pause(1))
    return UnschedulableJob(job.facts, frozenset(triggers), session.class_of(job), reason)


def _triggers(session: Session, job: Job) -> set[Trigger] | None:
    """Return the triggers of the job without time. Empty: only a change of the job. None: the triggers are unknown."""
    if session.asked_for.services:
        return {AnyChange(), Pause(_LONG)}
    if job.is_pending:
        found: set[Trigger] = {QueueChange(job.facts.queue), *session.enqueue_retry_when(job)}
        return found | _of_arrivals(session) if session.promises.must_wait(job) else found
    waiting = [task for task in job.tasks if task.status is TaskStatus.PENDING and not task.facts.gates]
    if any(task.uid in session.snapshot.held for task in waiting):
        return None
    if any(task.facts.is_behind_queue_gate and task.facts.uses_queue_gate for task in job.tasks):
        return {AnyChange()}  # the queue may have room later
    invalid = session.job_invalid(job)
    if invalid is not None:
        found = {AnyChange()} if invalid.retry_when is None else set(invalid.retry_when)
        return found | _of_arrivals(session) if job.facts.promise.whole else found
    if not waiting:
        return set()
    shapes = frozenset(task.facts.shape for task in waiting)
    found = set()
    actions = set(session.configuration.actions) - FILLING
    if actions & (_OWN | _OTHERS):
        found.add(Eviction(job.facts.queue, shapes, only_own=not actions & _OTHERS))
    if actions - _OWN - _OTHERS or not (job.fit_errors or job.is_limited):  # an action of another package may depend on any state
        return found | {AnyChange()}
    is_in_part = is_constrained(job, session.hyper_nodes) or bool(job.facts.group.spec.topology_key)
    if is_in_part and (job.is_divided or found):
        # usage anywhere decides the nodes or victims for the first pods, and thus the room that is left for the other pods
        return found | {AnyChange()}
    others = _beside_room(session, job, waiting, may_evict=bool(found))
    if AnyChange() in others or (others and found and (actions & _GANG or _missing(session, job) > 1)):
        return found | {AnyChange()}  # victims on other nodes, or for the first pod, decide what quotas and other pods leave
    lacking = 1 if len(shapes) > 1 else _missing(session, job)
    rooms = {Room(shape, lacking) for shape in shapes}
    if job.fit_errors:
        return found | others | ({AnyRoom()} if is_in_part else rooms)
    return (set() if found or is_in_part else _of_full_nodes(session, job, waiting, rooms)) or found | others


def _beside_room(session: Session, job: Job, waiting: Sequence[Task], *, may_evict: bool) -> set[Trigger]:
    """Return the triggers of quotas, other pods and objects that keep `waiting` from being placed, whatever room nodes have.

    If pods may be evicted for the tasks, quotas and nodes are examined after the placement too.
    """
    unlike = list(_unlike(waiting)) if job.fit_errors or may_evict else []
    queue = session.queues[job.facts.queue]
    is_limited = job.is_limited or (
        may_evict and not all(session.allocatable(queue, session.plan(task.facts.shape), 1, task) for task in unlike)
    )
    found = _of_nodes(session, job, unlike)
    if (withheld := session.withheld(job)) is not None:
        # what other gangs booked in a budget, and for how long, depends on their pods and estimates
        found |= withheld.retry_when or {AnyChange()}
    if is_limited:
        found |= session.quota_retry_when(job, waiting)
    if job.facts.key in session.promises.withheld:
        found |= {AnyRoom(), QueueUse()}
    return found


def _of_arrivals(session: Session) -> set[Trigger]:
    """Return the trigger of a gang that waits for its pods: time, after which its promise is taken back or given again."""
    return {Pause(max(1, session.promises.patience // 2))}


def _of_nodes(session: Session, job: Job, tasks: Iterable[Task]) -> set[Trigger]:
    """Return the triggers, besides the room of nodes, that may change the nodes feasible for `tasks`."""
    return set(chain.from_iterable(session.retry_when(job, task, session.plan(task.facts.shape)) for task in tasks))


def _of_full_nodes(session: Session, job: Job, waiting: Sequence[Task], rooms: set[Room]) -> set[Trigger]:
    """Return the triggers of room for a job that its queue refused too: one of both is enough. Empty if nodes have room."""
    everywhere = np.arange(len(session.names), dtype=np.intp)
    if any(int(session.plan(each.shape).room(everywhere, future=True).sum()) >= each.pods for each in rooms):
        return set()
    found = rooms | _of_nodes(session, job, _unlike(waiting))
    return set() if AnyChange() in found else found


def _missing(session: Session, job: Job) -> int:
    """Return how many pods must be placed together: 1 if the job is ready or no plugin has a minimum."""
    if session.job_ready(job) or session.job_pipelined(job):
        return 1
    return max(1, job.tally.missing(job.facts.min_available, job.facts.role_minimum))


def _unlike(tasks: Iterable[Task]) -> Iterable[Task]:
    """Return one of `tasks` for each shape and set of labels, by which terms of other pods select a task."""
    found = {(task.facts.shape, frozenset(task.facts.pod.metadata.labels.items())): task for task in tasks}
    return found.values()
