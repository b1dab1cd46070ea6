"""What proportion and capacity both keep of a queue: sums at the start of the session, limits and enqueued jobs."""

from fractions import Fraction

from tests.reference.amounts import EPSILON, capped, exceeded, minus, plus
from tests.reference.model import HAVING_A_NODE, PENDING

UNLIMITED = 10**30


class QueueSums:
    """Of one queue. `allocated` and `inqueue` follow the session, the rest is of its start."""

    def __init__(self, session, queue):
        self.session = session
        self.queue = queue
        self.jobs = [job for job in session.jobs.values() if job.queue == queue.name]
        tasks = [task for job in self.jobs for task in job.tasks]
        self.request = plus(*(task.request for task in tasks if task.status in {*HAVING_A_NODE, PENDING}))
        self.elastic = plus(*(exceeded(job.allocated, job.min_resources) for job in self.jobs))

    @property
    def allocated(self):
        return plus(*(self.session.held_by(job.tasks) for job in self.jobs))

    @property
    def inqueue(self):
        return self.session.promises.in_queues({self.queue.name})


def filled(capability):
    """A capability whose cpu and memory are unlimited unless given."""
    return {"cpu": UNLIMITED, "memory": UNLIMITED, **capability}


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
