"""Enqueue: one pending job per visit of a queue; one that is refused holds nobody up."""

from tests.reference.session import Heap


def execute(session):
    queues, pending = Heap(session.queue_before), {}
    for job in session.jobs.values():
        if job.queue not in pending:
            pending[job.queue] = Heap(session.job_before)
            queues.push(session.queues[job.queue])
        if job.is_pending:
            pending[job.queue].push(job)
    while queues:
        queue = queues.pop()
        if not pending[queue.name]:
            continue
        job = pending[queue.name].pop()
        may_enter = not job.has_min_resources or session.vote("job_enqueueable", job) or session.promises.make_room(job)
        if may_enter:
            session.promises.give(job)
            for tell in session.all_of("job_enqueued"):
                tell(job)
            job.phase = "Inqueue"
        queues.push(queue)
