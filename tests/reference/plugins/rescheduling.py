"""Rescheduling (scheduler-plugins 18, with what 28 says is wrong there mended): pods leave nodes that are used too much."""

from fractions import Fraction

DIMENSIONS = ("cpu", "memory")


class Rescheduling:
    def __init__(self, session, flags, arguments):
        self.session = session
        since = session.tables.get("since", {}).get("rescheduling.last", 0)
        if since < arguments.get("seconds", 300):
            self.victim_tasks = None
        params = arguments.get("strategies", [{"params": {}}])[0]["params"]
        self.thresholds, self.targets = (
            [params.get(key, {}).get(name, 100) for name in DIMENSIONS] for key in ("thresholds", "targetThresholds")
        )

    def victim_tasks(self, running):
        measured = {name: [Fraction(str(each)) for each in row[:2]] for name, row in self.session.tables.get("usage", {}).items()}
        nodes = {node.name: node for node in self.session.nodes}
        low = [name for name, used in measured.items() if not nodes[name].unschedulable and below(used, self.thresholds)]
        high = [name for name, used in measured.items() if name not in low and not below_or_at(used, self.targets)]
        room = [
            sum(max(target - measured[name][i], 0) * nodes[name].allocatable[key] / 100 for name in low)
            for i, (key, target) in enumerate(zip(DIMENSIONS, self.targets, strict=True))
        ]
        found = []
        for name in sorted(high, key=lambda name: (-sum(measured[name]), list(nodes).index(name))):
            used, here = measured[name], [task for task in running if task.node == name and task.preemptable]
            for task in sorted(here, key=lambda task: (task.options.get("prio", -(10**9)), task.name)):
                if below(used, self.targets) or min(room) <= 0:
                    break
                found.append(task)
                for i, key in enumerate(DIMENSIONS):
                    room[i] -= task.request[key]
                    used[i] -= Fraction(task.request[key] * 100) / nodes[name].allocatable[key]
        return found


def below(used, limits):
    return all(each < limit for each, limit in zip(used, limits, strict=True))


def below_or_at(used, limits):
    return all(each <= limit for each, limit in zip(used, limits, strict=True))
