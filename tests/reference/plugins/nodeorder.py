"""Nodeorder: the scores of Kubernetes' own scheduler, weighed."""

import math
from fractions import Fraction

from .predicates import spread_counts
from .selectors import matches, present, term_of, tolerates

DEFAULTS = {
    "leastrequested": 1,
    "mostrequested": 0,
    "balancedresource": 1,
    "nodeaffinity": 2,
    "podaffinity": 2,
    "tainttoleration": 3,
    "podtopologyspread": 2,
}
BARE = {"cpu": 100, "memory": 200 * 2**20}  # what counts for a pod that asks for none
GPU = "nvidia.com/gpu"


class NodeOrder:
    def __init__(self, session, flags, arguments):
        self.session = session
        self.weights = {name: arguments.get(f"{name}.weight", weight) for name, weight in DEFAULTS.items()}

    def batch_node_order(self, task, nodes):
        total = {node.name: 0 for node in nodes}
        for name, weight in self.weights.items():
            if weight:
                for node, score in getattr(self, name)(task, nodes).items():
                    total[node] += weight * score
        return total

    def taken(self, node, name):
        """With a small default for pods that ask for none."""
        on = [task for task in self.session.on(node) if task.status != "Pipelined"]
        return sum(task.request[name] or BARE[name] for task in on)

    def leastrequested(self, task, nodes):
        found = {}
        for node in nodes:
            parts = []
            for name, bare in BARE.items():
                has, after = node.allocatable[name], self.taken(node, name) + (task.request[name] or bare)
                if has:
                    parts.append(0 if after > has else int((has - after) * 100 // has))
            found[node.name] = sum(parts) // len(parts) if parts else 0
        return found

    def mostrequested(self, task, nodes):
        found = {}
        for node in nodes:
            parts = []
            for name, bare in BARE.items():
                has, after = node.allocatable[name], self.taken(node, name) + (task.request[name] or bare)
                if has:
                    parts.append(int(min(after, has) * 100 // has))
            found[node.name] = sum(parts) // len(parts) if parts else 0
        return found

    def balancedresource(self, task, nodes):
        names = ["cpu", "memory"] + [GPU] * (task.request.get(GPU, 0) > 0)
        if not any(task.request.get(name, 0) for name in names):
            return {}
        found = {}
        for node in nodes:
            used = self.session.used(node)
            without = evenness(node, {name: used.get(name, 0) for name in names})
            after = evenness(node, {name: used.get(name, 0) + task.request.get(name, 0) for name in names})
            found[node.name] = 50 + int(Fraction(50 + after - without, 2))
        return found

    def nodeaffinity(self, task, nodes):
        given = task.options.get("prefer")
        if given is None:
            return {}
        wanted = {key: value for key, value in given.items() if key != "weight"}
        raw = {node.name: given["weight"] * matches(wanted, node.labels) for node in nodes}
        most = max(raw.values())
        return {name: 100 * score // most if most else 0 for name, score in raw.items()}

    def tainttoleration(self, task, nodes):
        raw = {}
        for node in nodes:
            soft = [taint for taint in node.taints if taint["effect"] == "PreferNoSchedule"]
            raw[node.name] = sum(not tolerates(task, taint) for taint in soft)
        most = max(raw.values())
        return {name: 100 - 100 * count // most if most else 100 for name, count in raw.items()}

    def podaffinity(self, task, nodes):
        pairs = {}
        for place in self.session.nodes:
            for other in present(self.session, place):
                if other.namespace != task.namespace:
                    continue
                for one, two in ((task, other), (other, task)):
                    if "preferPod" in one.options:
                        key, labels = term_of(one.options["preferPod"])
                        if matches(labels, two.labels) and key in place.labels:
                            pair = key, place.labels[key]
                            pairs[pair] = pairs.get(pair, 0) + one.options["preferPod"]["weight"]
        raw = {
            node.name: sum(weight for (key, value), weight in pairs.items() if node.labels.get(key) == value) for node in nodes
        }
        low, high = min(raw.values()), max(raw.values())
        return {name: 100 * (score - low) // (high - low) if high > low else 0 for name, score in raw.items()}

    def podtopologyspread(self, task, nodes):
        given = task.options.get("spread")
        if given is None or given["when"] != "ScheduleAnyway":
            return {}
        key, counts = given["key"], spread_counts(self.session, task, given)
        having = [node for node in nodes if key in node.labels]
        size = len(having) if key == "kubernetes.io/hostname" else len({node.labels[key] for node in having})
        raw = {}
        for node in having:
            score = counts.get(node.labels[key], 0) * math.log(size + 2) + given["maxSkew"] - 1
            raw[node.name] = math.floor(score + 0.5)
        low, high = min(raw.values(), default=0), max(raw.values(), default=0)
        found = {node.name: 0 for node in nodes}
        for name, score in raw.items():
            found[name] = 100 * (high + low - score) // high if high else 100
        return found


def evenness(node, used):
    parts = [
        min(Fraction(1), Fraction(amount) / node.allocatable[name]) for name, amount in used.items() if node.allocatable.get(name)
    ]
    if len(parts) < 2:
        deviation = 0
    elif len(parts) == 2:
        deviation = abs(parts[0] - parts[1]) / 2
    else:
        mean = sum(parts) / len(parts)
        deviation = math.sqrt(sum((part - mean) ** 2 for part in parts) / len(parts))
    return int((1 - deviation) * 100)
