"""Resource-strategy-fit as it is without arguments about resources: emptier nodes in cpu and memory are better."""

from fractions import Fraction

from tests.reference.amounts import names


class ResourceStrategyFit:
    def __init__(self, session, flags, arguments):
        self.session = session
        weight = arguments.get("resourceStrategyFitWeight", 10)
        self.weight = 10 if weight < 0 else weight

    def node_order(self, task, node):
        used, score, weights = self.session.used(node), Fraction(0), 0
        for name in sorted(names(task.request) & {"cpu", "memory"}):
            has, after = node.allocatable[name], used.get(name, 0) + task.request[name]
            weights += 1
            if has == 0:
                continue
            if after > has:
                return 0
            score += Fraction(has - after) / Fraction(has)
        return score / weights * 100 * self.weight if weights else 0
