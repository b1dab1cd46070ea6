"""Proportion: every queue deserves a part of the cluster by weight, as far as it wants it."""

from fractions import Fraction

from tests.reference.amounts import EPSILON, capped, exceeded, exceeding, is_empty, larger, less_equal, minus, names, plus, share

from .queue_sums import QueueSums, flat_limit, lowered


class Proportion:
    def __init__(self, session, flags, arguments):
        self.session = session
        with_jobs = [queue for queue in session.queues.values() if any(job.queue == queue.name for job in session.jobs.values())]
        self.sums = {queue.name: QueueSums(session, queue) for queue in with_jobs}
        self.limits = {queue.name: flat_limit(session, queue) for queue in with_jobs}
        self.queues = with_jobs
        self.requests = {name: sums.request for name, sums in self.sums.items()}
        self.deserved = self.fill(self.requests)

    def fill(self, requests):
        deserved = {queue.name: {} for queue in self.queues}
        remaining, met = dict(self.session.total), set()
        while True:
            open_ones = [queue for queue in self.queues if queue.name not in met]
            weight = sum(queue.weight for queue in open_ones)
            if weight == 0:
                return deserved
            old, grown, shrunk = remaining, {}, {}
            for queue in open_ones:
                name, before = queue.name, deserved[queue.name]
                part = {key: amount * Fraction(queue.weight, weight) for key, amount in old.items()}
                now = capped(plus(before, part), self.limits[name], missing_is_zero=False)
                now = larger(capped(now, requests[name], missing_is_zero=True), queue.guarantee)
                deserved[name] = now
                if less_equal(requests[name], now) or now == before:
                    met.add(name)
                grown = plus(grown, exceeded(now, before))
                shrunk = plus(shrunk, exceeded(before, now))
            remaining = exceeded(plus(old, shrunk), grown)
            if is_empty(remaining) or all(abs(remaining[name] - old.get(name, 0)) < EPSILON for name in remaining):
                return deserved

    def share(self, queue):
        deserved, allocated = self.deserved[queue.name], self.sums[queue.name].allocated
        return max((share(allocated.get(name, 0), deserved[name]) for name in names(deserved)), default=Fraction(0))

    def queue_order(self, left, right):
        if left.priority != right.priority:
            return right.priority - left.priority
        one, two = self.share(left), self.share(right)
        return (one > two) - (one < two)

    def overused(self, queue):
        return less_equal(self.deserved[queue.name], self.sums[queue.name].allocated)

    def allocatable(self, queue, task, beside=None):
        """`beside`: what the queue must have room for too. It deserves more once all whom it was promised request it."""
        if self.preemptive(queue, [task], beside or {}) or beside is None or not queue.is_open:
            return self.preemptive(queue, [task], beside or {})
        name, later = queue.name, self.fill({name: plus(has, self.sums[name].inqueue) for name, has in self.requests.items()})
        limit = dict(self.deserved[name])
        for key in task.request:
            if limit.get(key, 0) >= self.requests[name].get(key, 0):
                limit[key] = max(limit.get(key, 0), later[name].get(key, 0))
        return not exceeding(plus(self.sums[name].allocated, task.request, beside), limit, task.request, queue.capability)

    def preemptive(self, queue, tasks, beside=None):
        wanted = plus(*(task.request for task in tasks))
        after = plus(self.sums[queue.name].allocated, wanted, beside or {})
        gaps = [after[name] - self.deserved[queue.name].get(name, 0) for name in wanted]
        if any(0 < abs(gap) < 1 for gap in gaps):  # fractions only come near what floating numbers reach
            self.session.is_doubtful = True
        return queue.is_open and not exceeding(after, self.deserved[queue.name], wanted, queue.capability)

    def lowers_lack(self, gone, placed):
        return lowered(
            *(self.session, gone, placed, self.deserved, lambda name: self.sums[name].allocated),
            lambda task, name: (job := self.session.job_of(task)) is not None and job.queue == name,
        )

    def reclaimable(self, preemptor, candidates):
        has, found = {}, []
        for task in candidates:
            name = self.session.job_of(task).queue
            has.setdefault(name, self.sums[name].allocated)
            if not less_equal(has[name], self.deserved[name]):
                has[name] = minus(has[name], task.request)
                found.append(task)
        return found

    def job_enqueueable(self, job):
        if not self.session.queues[job.queue].is_open:
            return -1
        if not job.has_min_resources:
            return 1
        sums = self.sums[job.queue]
        after = minus(plus(job.min_resources, sums.allocated, sums.inqueue), sums.elastic)
        return -1 if exceeding(after, self.limits[job.queue], job.min_resources, self.session.queues[job.queue].capability) else 1
