"""Task-topology (scheduler-plugins 22): buckets of tasks that should share a node, as far as their relations allow."""

from fractions import Fraction
from itertools import combinations

from tests.reference.amounts import less_equal, minus, plus
from tests.reference.model import ALLOCATED, BINDING, PENDING, PIPELINED, RELEASING

PREFIX = "volcano.sh/task-topology-"


class TaskTopology:
    def __init__(self, session, flags, arguments):
        self.session, self.weight = session, arguments.get("task-topology.weight", 1)
        found = ((job, Manager.of(session, job)) for job in session.jobs.values())
        self.managers = {job.name: manager for job, manager in found if manager is not None}

    def task_order(self, left, right):
        one, two = (self.managers.get(task.job) for task in (left, right))
        buckets = [None if manager is None else manager.of_task.get(task.name) for manager, task in ((one, left), (two, right))]
        if (buckets[0] is None) != (buckets[1] is None):
            return 1 if buckets[0] is None else -1
        if left.job != right.job or buckets[0] is None:
            return 0
        sizes = [len(one.unbound(bucket)) for bucket in buckets]
        if sizes[0] != sizes[1]:
            return sizes[1] - sizes[0]
        keys = [(one.buckets.index(bucket), *one.rank(task)) for bucket, task in zip(buckets, (left, right), strict=True)]
        return (keys[0] > keys[1]) - (keys[0] < keys[1])

    def node_order(self, task, node):
        manager = self.managers.get(task.job)
        bucket = None if manager is None else manager.of_task.get(task.name)
        going = plus(*(other.request for other in self.session.on(node) if other.status == RELEASING))
        room = plus(self.session.idle(node), going)
        if bucket is None or not less_equal(task.request, room):
            return 0
        here = [other for other in manager.tasks() if manager.session_node(other) == node.name]
        score = sum(manager.node_of(other) == node.name for other in bucket)
        score += min(0, -sum(manager.is_apart(task.role, other.role) for other in here))
        others = sorted((other for other in manager.unbound(bucket) if other is not task), key=lambda other: other.uid)
        while not less_equal(plus(task.request, *(other.request for other in others)), room):
            others.pop()
        return Fraction((score + len(others) + 1) * self.weight * 100, manager.largest)


class Manager:
    """The buckets of one job: lists of tasks."""

    def __init__(self, together, apart, order):
        self.together, self.apart, self.order = together, apart, order
        self.buckets, self.of_task, self.at_start = [], {}, {}

    @classmethod
    def of(cls, session, job):
        """None: it has no topology, or one that cannot be."""
        if not job.count(PENDING):
            return None
        groups = {key: read(job.annotations.get(PREFIX + key, "")) for key in ("affinity", "anti-affinity", "task-order")}
        roles = {task.role for task in job.tasks}
        listed = [group for each in groups.values() for group in each]
        if not listed or any(set(group) - roles or len(set(group)) < len(group) for group in listed):
            return None
        order = [name for group in groups["task-order"] for name in group]
        ranks = {name: len(order) - i for i, name in enumerate(order)}
        found = cls(pairs(groups["affinity"]), pairs(groups["anti-affinity"]), ranks)
        found.fill(job.tasks)
        return found

    def is_apart(self, role, other):
        return frozenset({role, other}) in self.apart

    def priority(self, role):
        values = [0]
        kinds = ((4, self.apart, True), (3, self.together, False), (2, self.together, True), (1, self.apart, False))
        for value, relations, is_own in kinds:
            values += [value for pair in relations if role in pair and (len(pair) == 1) == is_own]
        return max(values)

    def rank(self, task):
        return -self.order.get(task.role, 0), -self.priority(task.role)

    def fill(self, tasks):
        related = [task for task in tasks if any(task.role in pair for pair in self.together | self.apart)]
        self.at_start = {task.name: task.node for task in related}
        by_node = {}
        for task in sorted(related, key=lambda task: (not task.node, task.node, *self.rank(task), task.name)):
            bucket = by_node.get(task.node) if task.node else self.best(task)
            if bucket is None:
                bucket = []
                self.buckets.append(bucket)
                if task.node:
                    by_node[task.node] = bucket
            bucket.append(task)
            self.of_task[task.name] = bucket
        self.largest = max((len(bucket) for bucket in self.buckets), default=0)

    def best(self, task):
        if not self.buckets:
            return None
        values = [sum(self.value(task.role, other.role) for other in bucket) for bucket in self.buckets]
        if max(values) < 0:
            return None
        wanted = [bucket for bucket, value in zip(self.buckets, values, strict=True) if value == max(values)]
        return min(wanted, key=lambda bucket: sum(weight(other) for other in bucket if not other.node))

    def value(self, role, other):
        pair = frozenset({role, other})
        return (pair in self.together) - (pair in self.apart)

    def tasks(self):
        return [task for bucket in self.buckets for task in bucket]

    @staticmethod
    def session_node(task):
        """The node that this session gave it."""
        return task.node if task.status in {ALLOCATED, PIPELINED, BINDING} else ""

    def node_of(self, task):
        return self.at_start[task.name] or self.session_node(task)

    def unbound(self, bucket):
        return [task for task in bucket if not self.node_of(task)]


def read(text):
    groups = [[name.strip() for name in group.split(",") if name.strip()] for group in text.split(";")]
    return [group for group in groups if group]


def pairs(groups):
    found = set()
    for group in groups:
        found |= {frozenset(pair) for pair in combinations(group, 2)} if len(group) > 1 else {frozenset(group)}
    return found


def weight(task):
    """Milli-cores, mebibytes, everything else as counted."""
    rest = minus(task.request, {"pods": task.request["pods"], "memory": task.request["memory"]})
    return sum(rest.values()) + Fraction(task.request["memory"], 2**20)
