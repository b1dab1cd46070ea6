"""Usage (scheduler-plugins 24): nodes by what they really use, and what pods add that measurements do not show yet."""

from fractions import Fraction

from tests.reference.model import ALLOCATED, BINDING, BOUND, PIPELINED, RUNNING
from tests.reference.session import OK, UNRESOLVABLE

STALE = 300
INTERVAL = 30


class Usage:
    def __init__(self, session, flags, arguments):
        self.session, self.measured = session, session.tables.get("usage", {})
        self.weight = arguments.get("usage.weight", 5)
        self.parts = arguments.get("cpu.weight", 1), arguments.get("memory.weight", 1)
        limits = arguments.get("thresholds", {})
        self.limits = limits.get("cpu", 80), limits.get("mem", 80)
        given = {"request_ratio": 0.7, "risk_threshold": 0.6, "risk_factor": 1.2, "be_cpu": 250, "be_mem": 200}
        given |= {key.removeprefix("estimator."): each for key, each in arguments.items() if key.startswith("estimator.")}
        self.estimator = {key: Fraction(str(each)) for key, each in given.items()}
        self.added = {}  # task name → (node name, cpu, memory)
        for task in session.tasks:
            if task.job in session.jobs and self.is_unseen(task):
                self.add(task)
        if self.weight == 0:
            self.node_order = None

    @staticmethod
    def is_unseen(task):
        if task.status == RUNNING:
            return task.options.get("started", 0) < INTERVAL
        return task.status in {ALLOCATED, BINDING, BOUND}

    def predicate(self, task, node):
        found = self.fresh(node)
        return UNRESOLVABLE if found and (found[0] > self.limits[0] or found[1] > self.limits[1]) else OK

    def fresh(self, node):
        """Percent of cpu and memory; None: not measured lately."""
        found = self.measured.get(node.name)
        return found[:2] if found and found[2] <= STALE else None

    def moved(self, task, before):
        """Counted while it has a place, as it was judged when it got it."""
        if task.status in {ALLOCATED, PIPELINED, BOUND, RUNNING}:
            self.added.pop(task.name, None)
            self.add(task)
        elif task.status != BINDING:
            self.added.pop(task.name, None)

    def add(self, task):
        node = next((node for node in self.session.nodes if node.name == task.node), None)
        if node is not None:
            self.added[task.name] = (node.name, *self.estimate(task, node))

    def estimate(self, task, node):
        given = self.estimator
        risk = given["risk_factor"] if self.load(node) >= given["risk_threshold"] else 1
        if task.is_best_effort:
            return given["be_cpu"] * risk, given["be_mem"] * 2**20 * risk
        return tuple(min(Fraction(amount) * given["request_ratio"] * risk, amount) for amount in self.wishes(task))

    @staticmethod
    def wishes(task):
        return task.request.get("cpu", 0), task.request.get("memory", 0)

    def used(self, node):
        found, result = self.measured.get(node.name, [0, 0, 0]), []
        for i, name in enumerate(("cpu", "memory")):
            coming = sum(each[i + 1] for each in self.added.values() if each[0] == node.name)
            has = node.allocatable.get(name, 0)
            result.append(min(max(Fraction(str(found[i])) / 100 + Fraction(coming) / Fraction(has), 0), 1) if has > 0 else 0)
        return result

    def weighed(self, parts):
        whole = sum(self.parts)
        return sum(part * weight for part, weight in zip(parts, self.parts, strict=True)) / Fraction(whole) if whole else 0

    def load(self, node):
        return self.weighed(self.used(node))

    def node_order(self, task, node):
        if self.fresh(node) is None:
            return 0
        return self.weighed([1 - part for part in self.used(node)]) * 100 * self.weight
