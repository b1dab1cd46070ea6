"""Preempt: inside a queue, first jobs against other jobs, then the tasks of a starving job against each other."""

from tests.reference.amounts import less_equal, plus
from tests.reference.model import BOUND, PENDING, RUNNING
from tests.reference.session import OK, UNRESOLVABLE, Heap

from .dry_run import dry_run


def execute(session):
    queues, starving = Heap(session.queue_before), {}
    for job in session.jobs.values():
        if job.is_pending or session.job_invalid(job) or not session.job_starving(job):
            continue
        if job.options.get("topo") or any(len(each) > 1 and each[1] != "none" for each in job.options.get("sub", [])):
            continue
        if job.queue not in starving:
            starving[job.queue] = []
            queues.push(session.queues[job.queue])
        starving[job.queue].append(job)
    while queues:
        queue = queues.pop()
        for step in (against_others, against_itself):
            jobs = Heap(session.job_before)
            for job in starving[queue.name]:
                jobs.push(job)
            while jobs:
                step(session, jobs.pop())


def against_others(session, job):
    mark, tasks = len(session.journal), waiting(session, job)

    while tasks and session.job_starving(job):
        task = tasks.pop()

        granted = session.granted(task)

        def may_go(victim, granted=granted):  # no more important one, see the decision that evictions end
            owner = session.job_of(victim)
            return owner is not job and owner.queue == job.queue and session.granted(victim) <= granted

        preempt(session, job, task, may_go)
    if session.vote("job_pipelined", job):
        session.commit(mark)
    else:
        session.undo_to(mark)


def against_itself(session, job):
    tasks = waiting(session, job)
    while tasks:
        mark = len(session.journal)
        if not preempt(session, job, tasks.pop(), lambda victim: session.job_of(victim) is job):
            session.undo_to(mark)
            return
        session.commit(mark)


def waiting(session, job):
    tasks = Heap(session.task_before)
    for task in job.tasks:
        if task.status == PENDING and not task.is_gated:
            tasks.push(task)
    return tasks


def preempt(session, job, task, may_go) -> bool:
    """Promise the task the best-scored node on which enough pods may go; evict as many as it takes."""
    if task.never:
        return False
    queue = session.queues[job.queue]

    def candidates(node):
        return [
            other
            for other in session.on(node)
            if other.status in {BOUND, RUNNING}
            and (other.is_best_effort or not task.is_best_effort)
            and other.preemptable
            and session.job_of(other) is not None
            and may_go(other)
        ]

    if session.arguments.get("preempt", {}).get("enableTopologyAwarePreemption"):
        return dry_run(session, task, candidates)
    nodes = [node for node in session.nodes if session.refusal(task, node) != UNRESOLVABLE]

    def fits(node):
        return (
            session.everybody("allocatable", queue, task)
            and session.fits_future(task, node)
            and session.refusal(task, node) == OK
        )

    for node in session.ranked(task, nodes):
        victims = session.victims("preemptable", task, candidates(node))
        if not less_equal(task.request, plus(session.future_idle(node), *(victim.request for victim in victims))):
            continue
        mark = len(session.journal)
        is_room = make_room(session, session.first_to_go(victims, queue), lambda node=node: fits(node))
        if is_room:
            session.pipeline(task, node)
            if session.is_progress(mark, is_reclaim=False):
                return True
        session.undo_to(mark)
    return False


def make_room(session, ordered, fits) -> bool:
    """Evict `ordered`, the first one first, until it fits; then those stay, the last one first, without whom it fits too."""
    mark, gone = len(session.journal), []
    while ordered and not fits():
        gone.append(ordered.pop(0))
        session.evict(gone[-1])
    if not fits():
        return False
    for spared in gone[::-1]:
        session.undo_to(mark)
        for each in gone:
            if each is not spared:
                session.evict(each)
        if fits():
            gone = [each for each in gone if each is not spared]
    session.undo_to(mark)
    for each in gone:
        session.evict(each)
    return True
