"""Capacity: queues deserve what is written down; flat, or as a tree, where jobs in a queue with children stop only themselves."""

from fractions import Fraction

from tests.reference.amounts import (
    capped,
    exceeded,
    exceeding,
    exceeds_relevant,
    is_empty,
    larger,
    less_equal,
    minus,
    names,
    partly_less_equal,
    plus,
    share,
)
from tests.reference.model import Queue

from .queue_sums import UNLIMITED, QueueSums, filled, flat_limit, lowered


class Capacity:
    def __init__(self, session, flags, arguments):
        self.session = session
        self.is_tree = "hierarchy" in flags
        self.levels = max(arguments.get("ancestorReclaimLevel", 0), 0) if self.is_tree else 0
        queues = session.queues
        self.sums = {name: QueueSums(session, queue) for name, queue in queues.items()}
        self.deserved, self.limits, self.guarantees = {}, {}, {name: queue.guarantee for name, queue in queues.items()}
        self.is_ready = True
        if self.is_tree:
            self.is_ready = self.is_sound()
            if self.is_ready:
                self.build()
        else:
            self.victim_queue_order = None
            for name, queue in queues.items():
                self.limits[name] = flat_limit(session, queue)
                own = capped(queue.deserved, self.limits[name], missing_is_zero=False)
                self.deserved[name] = larger(own, queue.guarantee)
        if not self.is_ready:
            self.queue_order = self.victim_queue_order = None

    # -- the tree -------------------------------------------------------------------------------------------------------

    def parent(self, name):
        return None if name == "root" else self.session.queues[name].parent or "root"

    def children(self, name):
        return [each for each in self.session.queues if self.parent(each) == name]

    def above(self, name):
        """From the root to the direct parent; nothing where there is no tree."""
        found = []
        while self.is_tree and (name := self.parent(name)) is not None:
            found.insert(0, name)
        return found

    def is_sound(self):
        queues = self.session.queues
        return "root" in queues and all(self.parent(name) in {None, *queues} for name in queues)

    def build(self):
        root = self.session.queues["root"]
        everything = dict.fromkeys(self.session.total, UNLIMITED)
        self.capability = {"root": everything | filled(root.capability)}  # what it does not name is no limit, as in flat mode
        self.limits["root"] = self.capability["root"]
        self.descend("root")

    def descend(self, name):
        queues, below = self.session.queues, self.children(name)
        for child in below:
            self.deserved[child] = larger(queues[child].deserved, self.guarantees[child])
            own = dict(queues[child].capability)
            for key, amount in self.capability[name].items():
                if key not in own:
                    own[key] = amount
            self.capability[child] = own
        guaranteed = plus(*(self.guarantees[child] for child in below))
        if name == "root":
            self.guarantees["root"] = guaranteed
            self.deserved["root"] = plus(*(self.deserved[child] for child in below))
        for child in below:
            rest = plus(exceeded(self.limits[name], guaranteed), self.guarantees[child])
            self.limits[child] = capped(rest, self.capability[child], missing_is_zero=False)
            self.descend(child)

    # -- sums ------------------------------------------------------------------------------------------------------------

    def below(self, name):
        """The queue and all under it."""
        return [name, *(each for each in self.session.queues if self.is_tree and name in self.above(each))]

    def total(self, name, what):
        return plus(*(getattr(self.sums[each], what) for each in self.below(name)))

    def allocated(self, name):
        return self.total(name, "allocated")

    def share(self, name):
        deserved, has = self.deserved[name], self.allocated(name)
        if is_empty(deserved):
            return Fraction(1)
        return max(share(has.get(key, 0), deserved[key]) for key in names(deserved))

    # -- order -----------------------------------------------------------------------------------------------------------

    def compare_shares(self, left, right):
        one, two = self.share(left), self.share(right)
        if one != two:
            return -1 if one < two else 1
        return is_empty(self.deserved[left]) - is_empty(self.deserved[right])

    def compare_ages(self, left, right):
        """Of branches with equal shares the one with the oldest leaf, so that the order has no circles."""
        one, two = (min(self.age(leaf) for leaf in self.below(name) if not self.children(leaf)) for name in (left, right))
        return (one > two) - (one < two)

    def age(self, name):
        queue = self.session.queues[name]
        return queue.created, name

    def common(self, left, right):
        """How far from the root the queues have the same queues above them."""
        same = 0
        for i, (one, two) in enumerate(zip(self.above(left), self.above(right), strict=False)):
            if one != two:
                break
            same = i
        return same

    def queue_order(self, left: Queue, right: Queue):
        if left.priority != right.priority:
            return right.priority - left.priority
        one, two = left.name, right.name
        if not self.is_tree:
            return self.compare_shares(one, two)
        is_leaf, is_other_leaf = not self.children(one), not self.children(two)
        if is_leaf != is_other_leaf:
            return -1 if is_leaf else 1
        if is_leaf:
            level = self.common(one, two) + 1
            one, two = ([*self.above(name), name][min(level, len(self.above(name)))] for name in (one, two))
        return self.compare_shares(one, two) or self.compare_ages(one, two)

    def victim_queue_order(self, left, right, preemptor):
        return self.common(right.name, preemptor.name) - self.common(left.name, preemptor.name)

    # -- quota -----------------------------------------------------------------------------------------------------------

    def is_open_leaf(self, queue):
        return self.is_ready and queue.is_open and not (self.is_tree and self.children(queue.name))

    def job_enqueueable(self, job):
        queue = self.session.queues[job.queue]
        if not self.is_open_leaf(queue):
            return -1
        if not job.has_min_resources:
            return 1
        for name in [queue.name, *self.above(queue.name)]:
            after = plus(job.min_resources, self.allocated(name), self.total(name, "inqueue"))
            if exceeding(
                minus(after, self.total(name, "elastic")),
                self.limits[name],
                job.min_resources,
                self.session.queues[name].capability,
            ):
                return -1
        return 1

    def allocatable(self, queue, task, beside=None):
        """`beside`: what the queue must have room for too."""
        if not self.is_open_leaf(queue):
            return False
        for name in [queue.name, *self.above(queue.name)]:
            if exceeding(
                plus(self.allocated(name), task.request, beside or {}),
                self.limits[name],
                task.request,
                self.session.queues[name].capability,
            ):
                return False
        return True

    # -- reclaim ---------------------------------------------------------------------------------------------------------

    def ancestor(self, name, level):
        """The queue `level` above; None from the root on."""
        above = self.above(name)
        return above[-level] if level < len(above) else None

    def lowers_lack(self, gone, placed):
        leaves = [name for name in self.deserved if self.is_open_leaf(self.session.queues[name]) or not self.children(name)]
        counted = {each for leaf in leaves for each in (leaf, *(self.ancestor(leaf, at) for at in range(1, self.levels + 1)))}
        deserved = {name: self.deserved[name] for name in counted - {None}}
        return lowered(
            *(self.session, gone, placed, deserved, self.allocated),
            lambda task, name: (job := self.session.job_of(task)) is not None and name in {job.queue, *self.above(job.queue)},
        )

    def preemptive(self, queue, tasks):
        if not self.is_open_leaf(queue):
            return False
        wanted = plus(*(task.request for task in tasks))
        after = plus(self.allocated(queue.name), wanted)
        if exceeding(after, self.limits[queue.name], wanted, queue.capability):
            return False
        if partly_less_equal(after, self.deserved[queue.name], wanted):
            return True
        for level in range(1, self.levels + 1):
            name = self.ancestor(queue.name, level)
            if name is not None and partly_less_equal(plus(self.allocated(name), wanted), self.deserved[name], wanted):
                return True
        return False

    def reclaimable(self, preemptor, candidates):
        if not self.is_ready:
            return []
        session, found, has = self.session, [], {}
        own = session.job_of(preemptor).queue
        if self.is_tree and self.children(own):
            return []
        for task in session.first_to_go(candidates, session.queues[own]):
            name = session.job_of(task).queue
            if not (names(task.request) & names(preemptor.request)) - {"pods"}:
                continue
            mine = has.get(name, self.allocated(name))
            if not less_equal(self.guarantees[name], minus(mine, task.request)):
                continue
            if not self.may_lose(name, mine, task, own, preemptor):
                continue
            levels = [level for level in range(1, self.levels + 1) if self.is_checked(name, own, level)]
            checked = {self.ancestor(name, level) for level in levels}
            sums = {each: has.get(each, self.allocated(each)) for each in checked}
            if any(not self.is_over(each, sums[each], task) for each in checked):
                continue
            found.append(task)
            for each, amount in {**sums, name: mine}.items():
                has[each] = minus(amount, task.request)
        return found

    def is_borrower(self, name, task):
        """Whether the queue deserves nothing of what the task has."""
        return not names(task.request) & names(self.deserved[name])

    def is_over(self, name, has, task):
        return self.is_borrower(name, task) or exceeds_relevant(has, self.deserved[name], task.request)

    def may_lose(self, name, has, task, own, preemptor):
        if not self.is_borrower(name, task):
            return exceeds_relevant(has, self.deserved[name], task.request)
        near = [{self.ancestor(each, level) for level in range(1, self.levels + 1)} - {None} for each in (name, own)]
        return not (near[0] & near[1] and self.is_borrower(own, preemptor))

    def is_checked(self, name, own, level):
        victims, reclaimers = self.ancestor(name, level), self.ancestor(own, level)
        return victims is not None and victims != reclaimers

    def unified_evictable(self, job, candidates, is_reclaim):
        """For whole gangs of other queues: what their queue has beyond what it deserves."""
        if not is_reclaim:
            return candidates
        found, has = [], {}
        for task in candidates if self.is_ready else []:
            name = self.session.job_of(task).queue
            mine = has.get(name, self.allocated(name))
            if less_equal(self.guarantees[name], minus(mine, task.request)) and self.is_over(name, mine, task):
                has[name] = minus(mine, task.request)
                found.append(task)
        return found
