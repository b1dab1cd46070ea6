"""Backfill: tasks that ask for nothing, queue by queue, job by job, where filters let them."""

from tests.reference.model import ALLOCATED, PENDING, PIPELINED
from tests.reference.session import OK, Heap


def execute(session):
    for job, task in candidates(session):
        nodes = [node for node in session.nodes if session.refusal(task, node) == OK]
        if not nodes:
            job.failed.add(task.name)
            continue
        session.allocate(task, nodes[0] if len(nodes) == 1 else session.ranked(task, nodes)[0])
        if session.job_ready(job):
            for other in job.tasks:
                if other.status == ALLOCATED:
                    session.bind(other)


def candidates(session):
    queues, jobs, found = Heap(session.queue_before), {}, []
    for job in session.jobs.values():
        if job.is_pending or session.job_invalid(job):
            continue
        if job.queue not in jobs:
            jobs[job.queue] = Heap(session.job_before)
            queues.push(session.queues[job.queue])
        jobs[job.queue].push(job)
    while queues:
        queue = queues.pop()
        while jobs[queue.name]:
            job, tasks = jobs[queue.name].pop(), Heap(session.task_before)
            for task in job.tasks:
                if task.is_best_effort and not task.is_gated and task.status in {PENDING, PIPELINED}:
                    session.set(task, PENDING, "")
                    tasks.push(task)
            while tasks:
                found.append((job, tasks.pop()))
    return found
