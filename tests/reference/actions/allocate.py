"""Allocate: gangs of admitted jobs, queues and jobs in turns; beyond the minimum one task per turn.

A started gang that lacks members goes before jobs with at most its priority, in whatever queue.
"""

from tests.reference.actions.topology import place_job
from tests.reference.model import HAVING_A_NODE, PENDING, SUCCEEDED
from tests.reference.network import TOP
from tests.reference.session import OK, Heap


def execute(session):
    queues, jobs, tasks = Heap(session.queue_before), {}, {}
    knows_gangs = bool(session.all_of("job_ready"))
    short = [job for job in session.jobs.values() if job.lacks_members and knows_gangs]
    short.sort(key=lambda job: (-job.priority, job.created, job.uid))
    for job in session.jobs.values():
        if job.is_pending:
            if "enqueue" in session.actions:
                continue
            job.phase = "Inqueue"
        if session.job_invalid(job):
            continue
        waiting = Heap(session.task_before)
        for task in job.tasks:
            if task.status == PENDING and not task.is_gated and not task.is_best_effort:
                waiting.push(task)
        if not waiting:
            continue
        tasks[job.name] = waiting
        if job not in short:
            push(session, queues, jobs, job)
        if job.options.get("sub") or session.limit_of(job) is not None:
            divided = {part.uid: [task for task in part.tasks if task in waiting.items] for part in session.parts[job.name]}
            tasks[job.name] = {uid: members for uid, members in divided.items() if members}
    while queues or short:
        queue = queues.pop() if queues else None
        if queue is None:
            take_turn(session, short.pop(0), tasks, queues, jobs)
            continue
        if session.overused(queue) or not jobs[queue.name]:
            continue
        job = jobs[queue.name].pop()
        if short and short[0].priority >= job.priority:
            jobs[queue.name].push(job)
            job = short.pop(0)
        take_turn(session, job, tasks, queues, jobs)
        queues.push(queue)


def push(session, queues, jobs, job):
    if job.queue not in jobs:
        jobs[job.queue] = Heap(session.job_before)
        queues.push(session.queues[job.queue])
    jobs[job.queue].push(job)


def take_turn(session, job, tasks, queues, jobs):
    mark, waiting = len(session.journal), tasks.get(job.name)
    if not waiting or session.overused(session.queues[job.queue]):
        return
    place = place_job if isinstance(waiting, dict) else allocate_tasks
    if place(session, job, waiting) and session.job_ready(job):
        session.commit(mark)
        if waiting:
            push(session, queues, jobs, job)


def allocate_tasks(session, job, tasks, part=None, inside=TOP) -> bool:
    """Place tasks until the job is ready; all is undone where it is not, nor would be if promised room were there."""
    mark, queue = len(session.journal), session.queues[job.queue]
    nodes = [node for node in session.nodes if node.name in session.network.nodes[inside]]
    members = job.tasks if part is None else part.tasks

    def is_ready():
        return session.job_ready(job) if part is None else session.part_ready(job, part)

    while tasks:
        task = tasks.pop()
        if not session.everybody("allocatable", queue, task):
            job.is_limited = True
            continue
        if task.role and not task.has_claims and any(other.role == task.role for other in members if other.name in job.failed):
            job.failed.add(task.name)
            continue
        if job.is_ready and session.job_ready(job) and not session.promises.leave(job, task):
            job.is_limited = True
            continue
        candidates = nominated(session, task) or feasible(session, task, nodes)
        if not candidates:
            job.failed.add(task.name)
            if goes_on(job, part, task):
                continue
            break
        node = best(session, task, candidates)
        (session.allocate if session.fits_idle(task, node) else session.pipeline)(task, node)
        if is_ready():
            break
    if is_ready() or (session.vote("job_pipelined", job) if part is None else session.part_pipelined(job, part)):
        return True
    session.undo_to(mark)
    return False


def feasible(session, task, nodes):
    return [node for node in nodes if session.fits_future(task, node) and session.refusal(task, node) == OK]


def nominated(session, task):
    return feasible(session, task, [node for node in session.nodes if node.name == task.nominated])


def best(session, task, candidates):
    """Room that is there before room that is coming; then the best score; then the first node."""
    idle = [node for node in candidates if session.fits_idle(task, node)]
    group = idle or candidates
    return group[0] if len(group) == 1 else session.ranked(task, group)[0]


def goes_on(job, part, missed) -> bool:
    """Whether other tasks may be tried after one fits nowhere; claims are each pod's own, so that they tell nothing of others."""
    if job.minimum >= len(job.tasks):
        return False
    if part is not None and part.minimum >= len(part.tasks):
        return False
    if job.options.get("sub") or missed.has_claims:
        return True
    failed = {task.role for task in job.tasks if task.name in job.failed}
    if job.minimum < sum(job.roles.values()):
        left = sum(task.status == PENDING and task.role not in failed for task in job.tasks)
        return job.ready + left >= job.minimum
    for role in failed:
        if job.roles.get(role, 0) > 0:
            empty = sum(task.status == PENDING and task.role == role and task.is_best_effort for task in job.tasks)
            if job.count(*HAVING_A_NODE, SUCCEEDED, role=role) + empty < job.roles[role]:
                return False
    return True
