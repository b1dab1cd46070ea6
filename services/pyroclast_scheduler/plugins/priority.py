"""Plugin priority: jobs and tasks with higher priority are served first, and may preempt those with lower priority.

The order follows the priority of the PodGroup. Which job evicts another follows from the priorities that the API server gave to
their pods.
"""

from __future__ import annotations

from collections.abc import Sequence

from pyroclast_scheduler.model.jobs import Job
from pyroclast_scheduler.model.tasks import Task, TaskStatus
from pyroclast_scheduler.session.arguments import Arguments
from pyroclast_scheduler.session.extension_points import Candidate, Extensions, GangEviction
from pyroclast_scheduler.session.plugin_session import PluginSession


class Priority:
    """The plugin priority, which has no arguments."""

    def __init__(self, arguments: Arguments) -> None:
        del arguments

    def open(self, session: PluginSession) -> Extensions:
        """Return the extensions of this plugin for one session."""
        del session
        return Extensions(
            task_order=lambda task: -task.facts.priority,
            job_order=lambda job: -job.facts.priority,
            sub_job_order=lambda _, sub_job: -sub_job.priority,
            job_starving=lambda job: job.tally.ready + job.tally[TaskStatus.PIPELINED] < len(job.facts.tasks),
            preemptable=_lower,
            spares_preempted=lambda job, preemptor: job.facts.lowest_priority >= preemptor.priority,
            unified_evictable=_lower_gangs,
        )


def _lower_gangs(wish: GangEviction, candidates: Sequence[Candidate]) -> list[Candidate]:
    """Return tasks with lower priority of other jobs in the same queue; between queues, priority does not count."""
    level = wish.job.facts.preemptor_priority
    return [(owner, task) for owner, task in candidates if wish.is_reclaim or owner.facts.granted(task.facts) < level]


def _lower(preemptor: Task, job: Job, candidates: Sequence[tuple[Job, Task]]) -> list[tuple[Job, Task]]:
    """Return tasks with lower priority, of other jobs and of the same job."""
    level = job.facts.granted(preemptor.facts)
    return [
        (owner, task)
        for owner, task in candidates
        if (task.facts.priority < preemptor.facts.priority if owner is job else owner.facts.granted(task.facts) < level)
    ]
