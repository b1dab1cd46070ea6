"""When a job that a session could do nothing for is worth another look."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final

from pyroclast_scheduler.model.jobs import Job
from pyroclast_scheduler.model.label_index import named_values
from pyroclast_scheduler.model.retry_conditions import (
    AnyChange,
    Eviction,
    Evicts,
    Labelled,
    Neighbours,
    Pause,
    Rest,
    Room,
    Trigger,
)
from pyroclast_scheduler.model.statuses import TaskStatus
from pyroclast_scheduler.model.tasks import Task
from pyroclast_scheduler.session.domains import is_constrained
from pyroclast_scheduler.session.session import Session

__all__ = ["WAITING", "rest_of"]

_LONG: Final = 10  # schedule periods until something outside the cluster is asked again, although nothing changed
WAITING: Final = frozenset({TaskStatus.PENDING, TaskStatus.PIPELINED, TaskStatus.ALLOCATED})


def rest_of(session: Session, job: Job, *, has_promises: bool, reason: str) -> Rest | None:
    """When the job, which waits for `reason`, is worth another look; None if in the next session already."""
    tally = job.tally
    if not (job.is_pending or any(tally[status] for status in WAITING)) or job.facts.group.spec.hold is not None:
        return Rest(job.facts)
    if session.has_reservation(job) or tally[TaskStatus.PIPELINED] or tally[TaskStatus.ALLOCATED]:
        return None
    triggers = _triggers(session, job, has_promises=has_promises)
    if triggers is None:
        return None
    if triggers and (session.is_timed or job.facts.key in session.withheld):
        triggers.add(Pause(1))
    return Rest(job.facts, frozenset(triggers), session.kind_at_rest(job), reason)


def _triggers(session: Session, job: Job, *, has_promises: bool) -> set[Trigger] | None:
    """What may help the job, apart from time; nothing where only a change of it may, None where that is not known."""
    if session.is_restless:
        return {AnyChange(), Pause(_LONG)}
    if job.is_pending:
        return {AnyChange()}
    waiting = [task for task in job.tasks if task.status is TaskStatus.PENDING and not task.facts.gates]
    if any(task.uid in session.snapshot.held for task in waiting):
        return None
    if any(task.facts.is_behind_queue_gate and task.facts.uses_queue_gate for task in job.tasks):
        return {AnyChange()}  # the queue may get room for it
    if session.job_invalid(job) is not None or not waiting:
        return set()
    shapes = frozenset(task.facts.shape for task in waiting)
    evicts = session.evicts or Evicts.NOBODY
    found: set[Trigger] = set()
    if evicts is not Evicts.NOBODY:
        found.add(Eviction(job.facts.queue, shapes, evicts is Evicts.OWN_QUEUE))
    if has_promises or session.evicts is None or _is_wary(session, job, waiting):
        return found | {AnyChange()}
    lacking = _lacking(session, job, waiting)
    return found | {Room(shape, lacking) for shape in shapes} | _neighbours(session, waiting)


def _lacking(session: Session, job: Job, waiting: Sequence[Task]) -> int:
    """How many of `waiting` must get a place together, as any of them may be kept alone where no plugin asks for a minimum."""
    if session.job_ready(job) or session.job_pipelined(job) or len({task.facts.shape for task in waiting}) > 1:
        return 1
    return max(1, job.tally.missing(job.facts.min_available, job.facts.role_minimum))


def _is_wary(session: Session, job: Job, waiting: Sequence[Task]) -> bool:
    """Whether more than the room of a node that could take one of `waiting` may help the job.

    A part of the network is chosen by the sum of its room, which may grow on nodes that take none of them.
    """
    if job.is_limited or not job.fit_errors or is_constrained(session, job) or job.facts.group.spec.topology_key:
        return True
    if any(task.facts.shape.has_claims for task in waiting):
        return True
    coupled = _coupled(session, waiting)
    if not coupled:
        return False
    if session.evicts is not Evicts.NOBODY or any(_minded_by(session, task) is None for task in coupled):
        return True  # who is evicted elsewhere may help, or pods of any labels
    return any(session.depends_on_more_than_pods(task, session.plan(task.facts.shape)) for task in coupled)


def _coupled(session: Session, waiting: Sequence[Task]) -> list[Task]:
    """Those of `waiting` that may go to a node because of what changes on others, one for each shape and set of labels."""
    return [task for task in _unlike(waiting) if session.depends_on_others(task, session.plan(task.facts.shape))]


def _neighbours(session: Session, waiting: Sequence[Task]) -> set[Trigger]:
    """Whose coming and going counts for where one of `waiting` goes; nobody's where that does not depend on others."""
    coupled = _coupled(session, waiting)
    pairs = set[tuple[str, str]]().union(*(_minded_by(session, task) or () for task in coupled))
    return {Neighbours(), *(Labelled(key, value) for key, value in pairs)} if coupled else set()


def _minded_by(session: Session, task: Task) -> set[tuple[str, str]] | None:
    """The same of one pod; None where pods of any labels count."""
    shape = task.facts.shape
    own = (*shape.required("podAffinity"), *shape.required("podAntiAffinity"), *shape.spread)
    found: set[tuple[str, str]] = set()
    for term in session.term_counts.terms(task.facts, own):
        named = named_values(term.selector)
        if not named:
            return None
        key, values = named[0]
        found |= {(key, value) for value in values}
    return found


def _unlike(tasks: Iterable[Task]) -> Iterable[Task]:
    """One of `tasks` for each shape and set of labels: by these other pods tell them apart."""
    found = {(task.facts.shape, frozenset(task.facts.pod.metadata.labels.items())): task for task in tasks}
    return found.values()
