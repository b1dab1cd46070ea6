"""Decides whether nodes may be reserved for a job: when it is chosen, and again in each period of its reservation."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from pyroclast.api.enums import PodGroupPhase
from pyroclast_scheduler.model import quotas
from pyroclast_scheduler.model.jobs import Job
from pyroclast_scheduler.model.node_columns import Floats
from pyroclast_scheduler.model.statuses import TaskStatus
from pyroclast_scheduler.plugins.reservation.demand import Cluster, need_of
from pyroclast_scheduler.plugins.reservation.state import covers
from pyroclast_scheduler.session.session import Session


def obstacle(session: Session, cluster: Cluster, job: Job) -> str:
    """Return why `job` cannot start even on empty nodes; empty if it can, once all its pods exist."""
    queue = session.queues[job.facts.queue]
    if not queue.facts.is_open:
        return f"queue {queue.name} is closed"
    need = need_of(session, job)
    for name, limit in _capabilities(session, job):
        if (job.allocated + need.total > limit).any():
            return f"it asks for more than queue {name} may have"
    nodes = cluster.nodes(job)
    if not covers(nodes, np.flatnonzero(nodes.passing), need):
        return "the nodes that it may use do not hold it even when they are empty"
    return ""


def missing_pods(job: Job) -> int:
    """Return how many pods of its minimum an enqueued job lacks: pods that do not exist or are behind a scheduling gate."""
    if job.phase is not PodGroupPhase.INQUEUE:
        return 0
    lacking = job.tally.missing(job.facts.min_available, job.facts.role_minimum)
    there = sum(task.status is TaskStatus.PENDING and not task.facts.gates for task in job.tasks)
    return max(0, lacking - there)


def may_let_in(session: Session, job: Job) -> bool:
    """Whether the queue and its ancestors have room for the minimum of `job` beside their allocated amounts."""
    minimum = job.facts.minimum(session.dimensions)
    if minimum is None:
        return True
    return all(not (minimum + _allocated(session, name) > limit).any() for name, limit in _capabilities(session, job))


def _capabilities(session: Session, job: Job) -> Iterator[tuple[str, Floats]]:
    """Yield the capability of the queue and of each ancestor that has one."""
    name, seen = job.facts.queue, set[str]()
    while name in session.queues and name not in seen:
        seen.add(name)
        queue = session.queues[name].facts
        if queue.capability:
            yield name, quotas.capability(queue.capability, session.dimensions)
        name = queue.parent


def _allocated(session: Session, name: str) -> Floats:
    """Return the allocated amounts of a queue and its descendants, including other members of a ring."""
    total = session.dimensions.sums(session.queues[name].elsewhere)
    for own in _with_children(session, name):
        sums = session.queue_sums.get(own)
        if sums is not None:
            total += sums.allocated
        total += session.moves.queue_changes.get(own, 0.0)
    return total


def _with_children(session: Session, name: str) -> set[str]:
    found, added = {name}, {name}
    while added:
        added = {each.name for each in session.queues.values() if each.facts.parent in added} - found
        found |= added
    return found
