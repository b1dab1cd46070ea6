"""What proportion and capacity both keep of a queue: sums at the start of the session, limits and enqueued jobs."""

from fractions import Fraction

from tests.reference.amounts import EPSILON, capped, exceeded, minus, plus
from tests.reference.model import HAVING_A_NODE, PENDING

UNLIMITED = 10**30


def only_positive(amounts):
    return {name: max(amount, 0) for name, amount in amounts.items()}


def gated(job, minimum):
    """`minimum` without what pods with foreign gates ask for."""
    held = plus(*(task.request for task in job.tasks if task.is_gated))
    return {name: max(amount - held.get(name, 0), 0) for name, amount in minimum.items()}


def inqueue_of(job):
    """What a job was let in for and has not got yet."""
    return gated(job, only_positive(minus(job.min_resources, {name: job.allocated.get(name, 0) for name in job.min_resources})))


def is_expecting(job):
    if not job.has_min_resources:
        return False
    if job.phase == "Running":
        return job.count(*HAVING_A_NODE) >= job.minimum
    return job.phase == "Inqueue"


class QueueSums:
    """Of one queue. `allocated` follows the session, the rest is of its start, and `inqueue` grows with jobs that are let in."""

    def __init__(self, session, queue):
        self.session = session
        self.queue = queue
        self.jobs = [job for job in session.jobs.values() if job.queue == queue.name]
        tasks = [task for job in self.jobs for task in job.tasks]
        self.request = plus(*(task.request for task in tasks if task.status in {*HAVING_A_NODE, PENDING}))
        self.elastic = plus(*(exceeded(job.allocated, job.min_resources) for job in self.jobs))
        self.inqueue = plus(*(inqueue_of(job) for job in self.jobs if is_expecting(job)))

    @property
    def allocated(self):
        return plus(*(self.session.held_by(job.tasks) for job in self.jobs))

    def let_in(self, job):
        self.inqueue = plus(self.inqueue, gated(job, job.min_resources))


def filled(capability):
    """A capability whose cpu and memory are unlimited unless given."""
    found = dict(capability)
    for name in ("cpu", "memory"):
        if found.get(name, 0) <= 0:
            found[name] = UNLIMITED
    return found


def flat_limit(session, queue):
    """What a queue may have at most: all that the others are not guaranteed, and no more than its capability."""
    guaranteed = plus(*(each.guarantee for each in session.queues.values()))
    limit = plus(exceeded(session.total, guaranteed), queue.guarantee)
    if queue.capability:
        limit = capped(limit, filled(queue.capability), missing_is_zero=False)
    return limit


def lowered(session, gone, placed, deserved, allocated, counts) -> bool:
    """Whether the queues in `deserved` lack less, as reclaim must achieve, since `gone` are evicted and `placed` have room.

    `allocated`: returns what a queue has now. `counts`: whether a pod counts in a queue.
    """
    change = Fraction(0)
    for name, amounts in deserved.items():
        after = allocated(name)
        before = minus(
            plus(after, *(task.request for task in gone if counts(task, name))),
            plus(*(task.request for task in placed if counts(task, name))),
        )
        for key, amount in amounts.items():
            total, own = session.total.get(key, 0), [task.request.get(key, 0) for task in session.tasks if counts(task, name)]
            if key == "pods" or total <= 0 or amount < EPSILON or min(filter(None, own), default=amount + 1) > amount:
                continue
            change += Fraction(max(amount - after.get(key, 0), 0) - max(amount - before.get(key, 0), 0)) / Fraction(total)
    if change and abs(change) < Fraction(1, 10**7):  # floating numbers may see it otherwise
        session.is_doubtful = True
    return change < 0
