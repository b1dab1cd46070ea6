"""Allocate for jobs with a topology, or in parts: the lowest part of the network that holds them, by trying."""

from tests.reference.model import PENDING
from tests.reference.network import TOP
from tests.reference.plugins.network_topology_aware import need_of


def place_job(session, job, waiting):
    """Place the job inside the best hypernode of the first gradient that makes it ready, or would; whether there was one.

    `waiting`: the tasks of each part that are still to be placed, changed.
    """
    parts, mark = session.parts[job.name], len(session.journal)
    before = {part.uid: part.allocated for part in parts}
    whole = session.limit_of(job)
    for gradient in session.gradient(whole, session.allocated_hyper_node(job), TOP, job.min_resources):
        kept = {}
        for name in gradient:
            left, score = attempt(session, job, waiting, name)
            if len(session.journal) > mark and (session.job_ready(job) or session.vote("job_pipelined", job)):
                kept[name] = score
            del left
            session.undo_to(mark)
            for part in parts:
                part.allocated = before[part.uid]
        if kept:
            best = best_of(session, kept)
            left, _ = attempt(session, job, waiting, best)
            waiting.clear()
            waiting.update(left)
            session.job_places[job.name] = session.network.common(session.allocated_hyper_node(job), best)
            return True
    return False


def best_of(session, scores):
    """The first with the best score."""
    most = max(scores.values())
    if sum(abs(score - most) < 1e-6 for score in scores.values()) > 1 and most != int(most):
        session.is_doubtful = True
    return next(name for name, score in scores.items() if score == most)


def attempt(session, job, waiting, inside):
    """Place parts inside a hypernode, in turns, until the job is ready; the tasks left, and what the places are worth."""
    job.failed.clear()
    left = {uid: list(tasks) for uid, tasks in waiting.items()}
    required, open_parts = required_parts(session, job), [part for part in session.parts[job.name] if part.uid in left]
    score = 0
    while open_parts:
        part = open_parts[0]
        for other in open_parts[1:]:
            if goes_first(session, other, part, required):
                part = other
        open_parts.remove(part)
        placed = place_part(session, job, part, left[part.uid], inside)
        if placed is None:
            del left[part.uid]
            continue
        score += placed[0]
        left[part.uid] = placed[1]
        if placed[1]:
            open_parts.append(part)
        else:
            del left[part.uid]
        if session.job_ready(job):
            break
    return left, score


def goes_first(session, one, other, required):
    if (one.uid in required) != (other.uid in required):
        return one.uid in required
    return session.part_before(one, other)


def required_parts(session, job):
    parts = session.parts[job.name]
    ready = {part.uid for part in parts if session.part_ready(job, part)}
    found = set()
    for i, row in enumerate(job.options.get("sub", [])):
        lacking = row[-1]["minSubGroups"] - sum(part.policy == i and part.uid in ready for part in parts)
        rest = [part for part in parts if part.policy == i and part.uid not in ready]
        while lacking > 0 and rest:
            first = rest[0]
            for part in rest[1:]:
                if session.part_before(part, first):
                    first = part
            rest.remove(first)
            found.add(first.uid)
            lacking -= 1
    return found


def place_part(session, job, part, tasks, inside):
    """(score, tasks left) of the best hypernode of the first gradient in which something could be placed."""
    from .allocate import allocate_tasks

    for gradient in session.gradient(part.limit, part.allocated, inside, need_of(part)):
        fitting, mark, allocated = [], len(session.journal), part.allocated
        for name in gradient:
            forget(job, part)
            if allocate_tasks(session, job, heap(session, tasks), part=part, inside=name) and len(session.journal) > mark:
                fitting.append(name)
            session.undo_to(mark)
        if not fitting:
            continue
        scores = session.hyper_node_scores(part, fitting)
        best = best_of(session, {name: scores[name] for name in fitting})
        rest = heap(session, tasks)
        forget(job, part)
        allocate_tasks(session, job, rest, part=part, inside=best)
        part.allocated = session.network.common(allocated, best)
        return scores[best], [task for task in tasks if task in rest.items]
    return None


def heap(session, tasks):
    from tests.reference.session import Heap

    found = Heap(session.task_before)
    for task in tasks:
        if task.status == PENDING:
            found.push(task)
    return found


def forget(job, part):
    job.failed -= {task.name for task in part.tasks}
