"""The extensions of task-topology: the order of tasks, and scores of nodes."""

from __future__ import annotations

from typing import Final

from pyroclast.api import keys
from pyroclast_scheduler.model.jobs import Job
from pyroclast_scheduler.model.node_columns import Bools, Floats
from pyroclast_scheduler.model.statuses import TaskStatus
from pyroclast_scheduler.model.tasks import Task
from pyroclast_scheduler.placement.plans import PlacementPlan
from pyroclast_scheduler.plugins.task_topology.buckets import Buckets
from pyroclast_scheduler.plugins.task_topology.relations import relations_of
from pyroclast_scheduler.session.arguments import Arguments
from pyroclast_scheduler.session.extension_points import Extensions, Rank
from pyroclast_scheduler.session.session import Session
from pyroclast_scheduler.session.statement import Move

_BEST: Final = 100
_ANNOTATIONS: Final = (keys.TASK_TOPOLOGY_AFFINITY, keys.TASK_TOPOLOGY_ANTI_AFFINITY, keys.TASK_TOPOLOGY_TASK_ORDER)


class TaskTopology:
    """The plugin task-topology. Its argument is `task-topology.weight`, by default 1."""

    def __init__(self, arguments: Arguments) -> None:
        self._weight = arguments.integer("task-topology.weight", 1)

    def open(self, session: Session) -> Extensions:
        """Return the extensions of this plugin for one session, none if no waiting job declares relations of its tasks."""
        found = {job.facts.key: _buckets(session, job) for job in session.jobs.values()}
        if not any(found.values()):
            return Extensions()

        def buckets_of(key: str) -> Buckets | None:
            if key not in found:  # a session may add equivalent jobs later
                found[key] = _buckets(session, session.jobs[key]) if key in session.jobs else None
            return found[key]

        def rank(task: Task) -> Rank:
            buckets = buckets_of(task.facts.job)
            place = None if buckets is None else buckets.rank(task)
            return (True,) if place is None else (False, *place)

        def scores(job: Job, task: Task, plan: PlacementPlan, candidates: Bools) -> Floats | None:
            del plan, candidates
            buckets = buckets_of(job.facts.key)
            free = session.columns.idle() + session.columns.releasing
            beside = None if buckets is None else buckets.scores(task, free)
            return None if beside is None else beside * (_BEST * self._weight)

        def moved(move: Move, sign: int) -> None:
            buckets = buckets_of(move.job.facts.key)
            if buckets is not None and move.status is not TaskStatus.RELEASING:
                for task, row in zip(move.tasks, move.rows.tolist(), strict=True):
                    buckets.moved(task, row, is_placed=sign > 0)

        return Extensions(task_order=rank, is_task_order_live=True, batch_node_order=scores, moved=moved)


def _buckets(session: Session, job: Job) -> Buckets | None:
    annotations = job.facts.group.metadata.annotations
    if not job.tally[TaskStatus.PENDING] or not any(annotations.get(key) for key in _ANNOTATIONS):
        return None
    try:
        relations = relations_of(annotations, {task.facts.role for task in job.tasks})
    except ValueError as error:
        session.note(job, "Warning", "TaskTopologyInvalid", f"task topology is ignored: {error} in job {job.facts.key}")
        return None
    if relations is None:
        return None
    return Buckets(relations, job.tasks, lambda task: session.dimensions.vector(task.facts.shape.request))
