"""Scheduling gates of queues: a pod loses the gate when its queue has room, and a later session places the pod."""

from __future__ import annotations

from typing import Final

from pyroclast_scheduler.model.shapes import Shape
from pyroclast_scheduler.model.statuses import TaskStatus
from pyroclast_scheduler.model.tasks import Task
from pyroclast_scheduler.session.session import Session

_NOT_ASKED: Final = "a pod has the gate of its queue without the annotation that asks for it: it is never removed"


def open_gates(session: Session) -> None:
    """Remove the gates of as many pods as fit into their queues, beside allocated and earlier admitted pods.

    Queues and jobs are served in the order of the session.
    """
    found = [
        (session.queues[job.facts.queue], job)
        for job in session.jobs.values()
        if not job.is_pending and any(task.gates and task.is_behind_queue_gate for task in job.facts.tasks)
    ]
    taken: dict[tuple[str, int], int] = {}
    for queue, job in sorted(found, key=lambda each: (session.queue_key(each[0]), session.job_key(each[1]))):
        waiting: dict[int, tuple[Shape, list[Task]]] = {}
        for task in sorted(job.tasks, key=session.task_key):
            if task.status is TaskStatus.PENDING and task.facts.is_behind_queue_gate:
                if task.facts.uses_queue_gate:
                    waiting.setdefault(id(task.facts.shape), (task.facts.shape, []))[1].append(task)
                else:
                    session.note(job, "Warning", "QueueGateNotRequested", _NOT_ASKED)
        for shape, tasks in waiting.values():
            slot = (queue.name, id(shape))
            before = taken.get(slot, 0)
            count = session.allocatable(queue, session.plan(shape), before + len(tasks)) - before
            session.report.let_in += [task.facts for task in tasks[: max(count, 0)]]
            taken[slot] = before + max(count, 0)
