"""What proportion and capacity both keep of a queue: sums at the start of the session, limits and enqueued jobs."""

from tests.reference.amounts import capped, exceeded, minus, plus
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
