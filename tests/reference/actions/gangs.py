"""Gangpreempt and gangreclaim (scheduler-actions 6): whole gangs make room for whole gangs, in parts of the network."""

from fractions import Fraction
from functools import cmp_to_key

from tests.reference.amounts import less_equal, plus
from tests.reference.model import BOUND, HAVING_A_NODE, PENDING, RELEASING, RUNNING, SUCCEEDED
from tests.reference.network import TOP
from tests.reference.plugins.network_topology_aware import need_of
from tests.reference.session import Heap

from .allocate import best, feasible
from .reclaim import starving_jobs
from .topology import goes_first, required_parts


class Bundle:
    """Tasks of one job that go together; `is_whole`: their gang breaks."""

    def __init__(self, job, tasks, is_whole):
        self.job, self.tasks, self.is_whole = job, tasks, is_whole


def gangpreempt(session):
    execute(session, is_reclaim=False)


def gangreclaim(session):
    execute(session, is_reclaim=True)


def execute(session, *, is_reclaim):
    queues, starving = starving_jobs(session)
    while queues:
        queue = queues.pop()
        if is_reclaim and session.overused(queue):
            continue
        while starving[queue.name]:
            mark = len(session.journal)
            search(session, queue, starving[queue.name].pop(), is_reclaim=is_reclaim)
            session.commit(mark)


def search(session, queue, job, *, is_reclaim):
    pending = pending_tasks(session, job)
    tasks = [task for _, members in pending for task in members]
    if not tasks or (is_reclaim and not session.everybody("preemptive", queue, tasks)):
        return
    need = plus(*(task.request for task in tasks))
    for domain in domains(session, job):
        inside = session.network.nodes[domain]
        nodes = [node for node in session.nodes if node.name in inside and not session.closed_to(job, node)]
        room = plus(*(session.idle(node) for node in nodes))
        room = plus(room, *(task.request for node in nodes for task in session.on(node) if task.status == RELEASING))
        taken = []
        for bundle in bundles(session, job, need, nodes, is_reclaim=is_reclaim):
            taken.append(bundle)
            freed = plus(*(task.request for each in taken for task in each.tasks))
            if less_equal(need, plus(room, freed)) and simulate(session, queue, job, pending, domain, taken):
                for each in taken[:-1]:  # what turns out not to be needed stays
                    rest = [other for other in taken if other is not each]
                    if simulate(session, queue, job, pending, domain, rest):
                        taken = rest
                mark = len(session.journal)
                simulate(session, queue, job, pending, domain, taken, keep=True)
                if session.is_progress(mark, is_reclaim=is_reclaim):
                    return
                session.undo_to(mark)
                break


def pending_tasks(session, job):
    """Parts of the job with the tasks that wait, in order; only the first one where the job is ready."""
    required, waiting, found = required_parts(session, job), [], []
    for part in session.parts[job.name]:
        tasks = Heap(session.task_before)
        for task in part.tasks:
            if task.status == PENDING and not task.is_gated and not task.is_best_effort:
                tasks.push(task)
        if tasks:
            waiting.append((part, tasks))
    while waiting:
        first = waiting[0]
        for each in waiting[1:]:
            if goes_first(session, each[0], first[0], required):
                first = each
        waiting.remove(first)
        part, tasks = first
        found.append((part, [tasks.pop() for _ in range(len(tasks))]))
    return found[:1] if session.job_ready(job) else found


def domains(session, job):
    limit = session.limit_of(job)
    listed = session.gradient(limit, session.allocated_hyper_node(job), TOP, job.min_resources, is_evicting=True)
    found = list(dict.fromkeys(name for tier in listed for name in tier))
    return [TOP] if not found and limit is None else found[:8]


def simulate(session, queue, job, pending, domain, taken, *, keep=False) -> bool:
    """Whether the job would be ready with places for all tasks of one part after another, once the bundles are gone."""
    mark = len(session.journal)
    for bundle in taken:
        for task in bundle.tasks:
            session.evict(task)
    is_done = False
    for part, tasks in pending:
        listed = session.gradient(part.limit, part.allocated, domain, need_of(part), is_evicting=True)
        if not any(promise(session, queue, job, part, tasks, name) for tier in listed for name in tier):
            break
        is_done = session.vote("job_pipelined", job)
        if is_done:
            break
    if not (is_done and keep):
        session.undo_to(mark)
    return is_done


def promise(session, queue, job, part, tasks, inside) -> bool:
    mark, nodes = len(session.journal), [node for node in session.nodes if node.name in session.network.nodes[inside]]
    for task in tasks:
        fitting = feasible(session, task, nodes) if session.everybody("allocatable", queue, task) else []
        if not fitting:
            session.undo_to(mark)
            return False
        session.pipeline(task, best(session, task, fitting))
    if session.part_ready(job, part) or session.part_pipelined(job, part):
        return True
    session.undo_to(mark)
    return False


def bundles(session, job, need, nodes, *, is_reclaim):
    found, inside = [], {node.name for node in nodes}
    for owner in session.jobs.values():
        tasks = [task for task in owner.tasks if is_candidate(session, job, owner, task, is_reclaim=is_reclaim)]
        tasks = [task for task in tasks if task.node in inside]
        found += split(session, owner, tasks) if tasks else []
    found = ordered(session, job, found, need, is_reclaim=is_reclaim)
    allowed = agreed(session, job, [task for each in found for task in each.tasks], is_reclaim=is_reclaim)
    kept = []
    for each in found:
        left = [task for task in each.tasks if task in allowed]
        if left and (not each.is_whole or left == each.tasks):
            kept.append(Bundle(each.job, left, each.is_whole))
    return ordered(session, job, kept, need, is_reclaim=is_reclaim)


def is_candidate(session, job, owner, task, *, is_reclaim):
    if task.status not in ({RUNNING} if is_reclaim else {BOUND, RUNNING}) or not task.preemptable:
        return False
    if owner.annotations.get("volcano.sh/preemptable", "true") != "true":
        return False
    if is_reclaim:
        return owner.queue != job.queue and session.queues[owner.queue].is_reclaimable
    lowest = min((session.granted(each) for each in owner.tasks if each.status != PENDING), default=owner.priority)
    return owner is not job and owner.queue == job.queue and session.may_take(job) > lowest


def split(session, job, tasks):
    """What the gang can spare, and the rest, which goes as a whole."""
    tasks = sorted(tasks, key=lambda task: (task.priority, task.uid))
    surplus = job.ready - job.minimum
    if surplus < 0:
        return [Bundle(job, tasks, is_whole=False)]
    spare = {}
    if job.minimum >= sum(job.roles.values()):
        for role, least in job.roles.items():
            bare = sum(task.status == PENDING and task.role == role and task.is_best_effort for task in job.tasks)
            spare[role] = job.count(*HAVING_A_NODE, SUCCEEDED, role=role) + bare - least
    safe, whole, broken, spare_parts = [], [], set(), {}
    for i, row in enumerate(job.options.get("sub", [])):
        ready = [part for part in session.parts[job.name] if part.policy == i and part.is_ready]
        if row[-1]["minSubGroups"]:
            spare_parts[i] = len(ready) - row[-1]["minSubGroups"]
        broken |= {part.uid for part in session.parts[job.name] if part.policy == i and not part.is_ready}
    for task in tasks:
        part = next(part for part in session.parts[job.name] if task in part.tasks)
        is_part_spare = part.uid in broken or spare_parts.get(part.policy, 1) > 0  # parts that nobody counts can go
        if surplus > 0 and spare.get(task.role, 1) > 0 and is_part_spare:
            safe.append(task)
            if part.uid not in broken:
                broken.add(part.uid)
                if part.policy in spare_parts:
                    spare_parts[part.policy] -= 1
            surplus -= 1
            if task.role in spare:
                spare[task.role] -= 1
        else:
            whole.append(task)
    return [Bundle(job, each, is_whole) for each, is_whole in ((safe, False), (whole, True)) if each]


def worth(bundle, need):
    """How much it gives of what is needed, against what is lost by it; None: nothing is lost."""
    if not bundle.is_whole:
        return None
    local = plus(*(task.request for task in bundle.tasks))
    lost = plus(*(task.request for task in bundle.job.tasks))
    wanted = {name: amount for name, amount in need.items() if amount > 0}
    gain = sum(min(local.get(name, 0), amount) / Fraction(amount) for name, amount in wanted.items())
    price = sum(lost.get(name, 0) / Fraction(amount) for name, amount in wanted.items())
    return None if price == 0 else gain / price


def ordered(session, job, found, need, *, is_reclaim):
    own = session.queues[job.queue]

    def compare(left, right):
        if left.is_whole != right.is_whole:
            return left.is_whole - right.is_whole
        if is_reclaim and left.job.queue != right.job.queue:
            one, two = session.queues[left.job.queue], session.queues[right.job.queue]
            answer = session.compare("victim_queue_order", one, two, own)
            return answer or (-1 if session.queue_before(two, one) else 1)
        if not is_reclaim and left.job is not right.job:
            return -1 if session.job_before(right.job, left.job) else 1
        a, b = worth(left, need), worth(right, need)
        if a != b:
            return -1 if a is None or (b is not None and a > b) else 1
        keys = [(each.job.uid, each.tasks[0].uid, len(each.tasks)) for each in (left, right)]
        return (keys[0] > keys[1]) - (keys[0] < keys[1])

    return sorted(found, key=cmp_to_key(compare))


def agreed(session, job, candidates, *, is_reclaim):
    for tier in session.tiers_of("unified_evictable"):
        chosen = candidates
        for ask in tier:
            answer = ask(job, candidates, is_reclaim)
            chosen = [task for task in chosen if task in answer]
        if chosen:
            return chosen
    return []
