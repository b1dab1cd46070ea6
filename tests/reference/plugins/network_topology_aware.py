"""Network-topology-aware: which hypernodes are tried, which is the best, and which of its nodes."""

from fractions import Fraction

from tests.reference.amounts import less_equal, names, plus
from tests.reference.model import HAVING_A_NODE, PENDING
from tests.reference.network import TOP


class NetworkTopologyAware:
    def __init__(self, session, flags, arguments):
        self.session, self.network = session, session.network
        self.allocatable, self.idle, self.future = {}, {}, {}
        for name, inside in self.network.nodes.items():
            nodes = [node for node in session.nodes if node.name in inside]
            self.allocatable[name] = plus(*(node.allocatable for node in nodes))
            self.idle[name] = plus(*(session.idle(node) for node in nodes))
            self.future[name] = plus(*(session.future_idle(node) for node in nodes))

    def gradient(self, limit, allocated, inside, need, is_evicting):
        """Hypernodes at or below `inside` with room, by tier, lowest first; to evict in the widest first, eight of them."""
        network = self.network
        if limit is None:
            return [[inside]]
        root = inside
        if allocated:
            allowed = [each for each in network.ancestors(allocated) if network.tier[each] <= limit]
            if not allowed:
                return []
            common = network.common(inside, allowed[-1])
            if common not in {allowed[-1], inside}:
                return []
            root = inside if common == allowed[-1] else allowed[-1]
        level, found = [root], {}
        while level:
            for name in level:
                sums = [self.allocatable] if is_evicting else [self.idle, self.future]
                has_room = allocated or any(less_equal(need, each[name]) for each in sums)
                if network.tier[name] <= limit and has_room:
                    found.setdefault(network.tier[name], []).append(name)
            level = [child for name in level for child in network.children[name]]
        return widest(found) if is_evicting else [found[tier] for tier in sorted(found)]

    def filling(self, name, request):
        inside = [node for node in self.session.nodes if node.name in self.network.nodes[name]]
        used = plus(*(self.session.used(node) for node in inside))
        wanted = names(request) & {"cpu", "memory"}
        if not wanted:
            return Fraction(0)
        after = {each: used.get(each, 0) + request[each] for each in wanted}
        if any(after[each] > self.allocatable[name].get(each, 0) for each in wanted):
            return Fraction(0)
        return sum(Fraction(after[each]) / self.allocatable[name][each] for each in wanted) / len(wanted)

    def there(self, part, nodes):
        return sum(task.status in HAVING_A_NODE and task.node in nodes for task in part.tasks)

    def hyper_node_order(self, part, candidates):
        request = plus(*(task.request for task in part.tasks))
        scores = {name: self.filling(name, request) for name in candidates}
        most = max(scores.values())
        best = [name for name in candidates if scores[name] == most]
        for name in best if len(best) > 1 else []:
            scores[name] += Fraction(self.there(part, self.network.nodes[name]), len(part.tasks))
        return {name: score * 100 for name, score in scores.items()}

    def batch_node_order(self, task, nodes):
        part = self.session.part_of(task)
        if part is None or part.limit is None:
            return self.normal(task, nodes)
        network = self.network
        allocated = part.allocated
        for other in part.tasks:
            if other.status in HAVING_A_NODE:
                allocated = network.common(allocated, network.lowest(other.node))
        if not allocated:
            return {}
        tiers = sorted(network.tier.values())
        scores = {}
        for node in self.session.nodes:
            name = network.lowest(node.name)
            common = network.common(name, allocated)
            span = tiers[-1] - tiers[0]
            scores[node.name] = Fraction(tiers[-1] - network.tier[common], span) if span else Fraction(1)
            if name == allocated:
                scores[node.name] = Fraction(1)
        given = {node.name: scores[node.name] for node in nodes}
        most = max(given.values())
        best = [name for name, score in given.items() if score == most]
        for name in best if len(best) > 1 else []:
            lowest = network.lowest(name)
            beside = sum(each.status in HAVING_A_NODE and network.lowest(each.node) == lowest for each in part.tasks)
            given[name] += Fraction(beside, len(part.tasks))
        return {name: score * 100 for name, score in given.items()}

    def normal(self, task, nodes):
        network, fading = self.network, Fraction(8, 10)
        tiers = sorted(set(network.tier.values()))
        whole = sum(fading ** (tier - 1) for tier in tiers)
        found = {}
        for node in nodes:
            score = Fraction(0)
            for tier in tiers:
                around = [name for name in network.tier if network.tier[name] == tier and node.name in network.nodes[name]]
                part = self.filling(around[-1], task.request) if around else 1
                score += fading ** (tier - 1) * part
            found[node.name] = score / whole * 100
        return found


def need_of(part):
    """What the tasks that wait ask for in all."""
    return plus(*(task.request for task in part.tasks if task.status == PENDING))


__all__ = ["TOP", "NetworkTopologyAware", "need_of"]


def widest(found):
    left, tiers = 8, []
    for tier in sorted(found, reverse=True):
        if left > 0:
            tiers.append(found[tier][-left:])
            left -= len(tiers[-1])
    return tiers
