"""Promises: the room that is kept for gangs that were let in, until they have it (docs/plugins/actions.md, kept room)."""

from .amounts import minus, plus
from .model import HAVING_A_NODE, PENDING, PIPELINED, RELEASING, SUCCEEDED

UNREADY = {"node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable"}


def rest(amounts, less):
    """What of `amounts` is not in `less`."""
    return {name: max(amount - less.get(name, 0), 0) for name, amount in amounts.items()}


def at_most(amounts, most):
    return {name: min(amount, most.get(name, 0)) for name, amount in amounts.items()}


class Promise:
    """What a gang is owed if it is let in. `whole`: the same with what it has already, as long as it has not started."""

    def __init__(self, job):
        self.had = job.allocated
        minimum = job.min_resources if job.has_min_resources else {}
        has_started = job.phase == "Running"
        self.amounts = rest(minimum, self.had)
        self.whole = self.amounts if has_started else minimum
        if job.count(*HAVING_A_NODE, SUCCEEDED, PIPELINED, PENDING) >= job.minimum:  # its pods say what they can use
            waiting = plus(*(task.request for task in job.tasks if task.status == PENDING))
            self.amounts = at_most(self.amounts, waiting)
            self.whole = at_most(self.whole, waiting if has_started else plus(waiting, self.had))
        held = plus(*(task.request for task in job.tasks if task.is_gated))
        self.amounts, self.whole = rest(self.amounts, held), rest(self.whole, held)


class Promises:
    """Whom room is kept for in a session. `counted`: the amounts of each gang, and what counts for overcommit, by name."""

    def __init__(self, session):
        self.session = session
        self.to = {job.name: Promise(job) for job in session.jobs.values()}
        owed = [job for job in session.jobs.values() if self.is_owed(job)]
        self.counted = {job.name: (self.to[job.name].amounts, self.to[job.name].whole) for job in owed}
        self.from_before = {job.name for job in owed if job.phase == "Inqueue"}

    @staticmethod
    def is_owed(job):
        if job.phase == "Running":
            return job.count(*HAVING_A_NODE) >= job.minimum
        return job.phase == "Inqueue"

    def give(self, job):
        """`job` was let in."""
        self.counted[job.name] = (self.to[job.name].whole, self.to[job.name].whole)

    def in_queues(self, names):
        """What is promised to gangs of these queues."""
        return plus(*(amounts for name, (amounts, _) in self.counted.items() if self.session.jobs[name].queue in names))

    @property
    def whole(self):
        return plus(*(whole for _, whole in self.counted.values()))

    # -- taken back -----------------------------------------------------------------------------------------------------

    def make_room(self, job) -> bool:
        """Send less important gangs without a placed pod back, the least important first, so that `job` may enter."""
        jobs = self.session.jobs
        lower = [
            jobs[name]
            for name in self.from_before & self.counted.keys()
            if jobs[name].priority < job.priority and not jobs[name].count(*HAVING_A_NODE, SUCCEEDED, PIPELINED, RELEASING)
            if any(self.to[name].whole.values())
        ]
        lower.sort(key=lambda other: (other.priority, -other.created, other.uid))
        before = dict(self.counted)

        def is_enough(gone):
            self.counted = {name: each for name, each in before.items() if jobs[name] not in gone}
            return self.session.vote("job_enqueueable", job)

        first = next((number for number in range(1, len(lower) + 1) if is_enough(lower[:number])), 0)
        gone = lower[:first]
        for other in gone[-2::-1]:  # those in whose place nobody comes stay
            if is_enough([each for each in gone if each is not other]):
                gone.remove(other)
        self.counted = {name: each for name, each in before.items() if jobs[name] not in gone}
        for other in gone:
            other.phase = "Pending"
        return bool(gone)

    # -- kept -----------------------------------------------------------------------------------------------------------

    def kept_from(self, job, queues):
        """What other gangs of `queues`, at least as important as `job`, are still owed."""
        found = {}
        for name in self.counted:
            other, first = self.session.jobs[name], self.to[name]
            if other is not job and other.queue in queues and other.priority >= job.priority:
                since = rest(other.allocated, first.had)
                found = plus(found, rest(first.amounts, since))
        return found

    def leave(self, job, task) -> bool:
        """Whether a pod beyond the minimum of its gang leaves free what others were promised, in the cluster and in its queue."""
        session, wanted = self.session, {name for name, amount in task.request.items() if amount > 0}
        free = plus(*(rest(session.idle(node), {}) for node in session.nodes if self.counts(node)))
        kept = self.kept_from(job, set(session.queues))
        if any(kept.get(name, 0) > 0 and minus(free, kept).get(name, 0) < task.request[name] for name in wanted):
            return False
        own = {name: amount for name, amount in self.kept_from(job, {job.queue}).items() if amount > 0 and name in wanted}
        return not own or session.everybody("allocatable", session.queues[job.queue], task, own)

    @staticmethod
    def counts(node):
        return not node.unschedulable and not any(each["key"] in UNREADY for each in node.taints)
