"""Reclaim: between queues, for starving jobs of queues that may take; nodes in their order, unscored."""

from tests.reference.amounts import less_equal, plus
from tests.reference.model import RUNNING
from tests.reference.session import OK, UNRESOLVABLE, Heap

from .preempt import make_room, waiting


def starving_jobs(session):
    """Queues with jobs, in their order, and in each the jobs that starve, in theirs."""
    queues, starving = Heap(session.queue_before), {}
    for job in session.jobs.values():
        if job.is_pending or session.job_invalid(job):
            continue
        if job.queue not in starving:
            starving[job.queue] = Heap(session.job_before)
            queues.push(session.queues[job.queue])
        if session.job_starving(job):
            starving[job.queue].push(job)
    return queues, starving


def execute(session):
    queues, starving = starving_jobs(session)
    while queues:
        queue = queues.pop()
        if session.overused(queue):
            continue
        while starving[queue.name]:
            reclaim_for_job(session, queue, starving[queue.name].pop())


def reclaim_for_job(session, queue, job):
    mark, tasks = len(session.journal), waiting(session, job)
    while tasks and session.job_starving(job):
        task = tasks.pop()
        if not task.never and session.everybody("preemptive", queue, [task]):
            reclaim_for_task(session, queue, job, task)
    if session.vote("job_pipelined", job):
        session.commit(mark)
    else:
        session.undo_to(mark)


def reclaim_for_task(session, queue, job, task):
    for node in session.nodes:
        if session.refusal(task, node) == UNRESOLVABLE:
            continue
        candidates = [other for other in session.on(node) if is_candidate(session, job, other)]
        if not candidates:
            continue
        victims = session.victims("reclaimable", task, candidates)
        if not less_equal(task.request, plus(session.future_idle(node), *(victim.request for victim in victims))):
            continue
        mark = len(session.journal)
        is_room = make_room(session, session.first_to_go(victims, queue), lambda node=node: session.fits_future(task, node))
        if is_room and session.refusal(task, node) == OK:  # who would not get the place takes none
            session.pipeline(task, node)
            if session.is_progress(mark, is_reclaim=True):
                return
        session.undo_to(mark)


def is_candidate(session, job, other) -> bool:
    owner = session.job_of(other)
    if other.status != RUNNING or not other.preemptable or owner is None or owner.queue == job.queue:
        return False
    return session.queues[owner.queue].is_reclaimable
