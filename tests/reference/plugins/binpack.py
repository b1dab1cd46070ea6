"""Binpack: nodes that would be fuller score higher."""

from fractions import Fraction

from tests.reference.amounts import names


class Binpack:
    def __init__(self, session, flags, arguments):
        self.session = session
        self.weight = arguments.get("binpack.weight", 1)
        self.weights = {}
        for name in filter(None, (each.strip() for each in arguments.get("binpack.resources", "").split(","))):
            self.weights[name] = self.of(arguments, f"resources.{name}")
        self.weights["cpu"] = self.of(arguments, "cpu")
        self.weights["memory"] = self.of(arguments, "memory")
        if self.weight == 0:
            self.node_order = lambda task, node: 0

    @staticmethod
    def of(arguments, key):
        weight = arguments.get(f"binpack.{key}", 1)
        return 1 if weight < 0 else weight

    def node_order(self, task, node):
        used, score, weights = self.session.used(node), Fraction(0), 0
        for name in names(task.request):
            if name not in self.weights:
                continue
            has, after = node.allocatable.get(name, 0), used.get(name, 0) + task.request[name]
            if has != 0 and self.weights[name] != 0:
                if after > has:
                    return 0
                score += self.weights[name] * Fraction(after) / Fraction(has)
            weights += self.weights[name]
        return (score / weights if weights else score) * 100 * self.weight
