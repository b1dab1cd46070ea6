"""The network as a tree of hypernodes, and jobs divided into parts."""

from __future__ import annotations

from dataclasses import dataclass, field

from .model import HAVING_A_NODE, PENDING, PIPELINED, SUCCEEDED

TOP = "<cluster-top-hypernode>"
LABELS = {"spec": "volcano.sh/task-spec", "inst": "volcano.sh/task-instance"}


class Network:
    """`tier`, `children` and `nodes` by name of hypernode; the virtual root holds all."""

    def __init__(self, given, nodes):
        self.tier = {name: tier for name, (tier, _) in given.items()}
        self.children = {name: [each for each in members if each in given] for name, (_, members) in given.items()}
        below = {each for children in self.children.values() for each in children}
        self.tier[TOP] = max(self.tier.values(), default=0) + 1
        self.children[TOP] = [name for name in given if name not in below]
        self.nodes = {name: self._nodes(given, name) for name in given} | {TOP: {node.name for node in nodes}}

    def _nodes(self, given, name):
        found = set()
        for each in given[name][1]:
            found |= self._nodes(given, each) if each in given else {each}
        return found

    def ancestors(self, name):
        """The hypernode itself first."""
        found = [name]
        while True:
            above = [each for each, children in self.children.items() if found[-1] in children]
            if not above:
                return found
            found += above

    def common(self, one, other):
        if not one or not other:
            return one or other
        return next((each for each in self.ancestors(other) if each in self.ancestors(one)), "")

    def lowest(self, node):
        """The hypernode of the lowest tier with the node."""
        return min((name for name in self.nodes if node in self.nodes[name]), key=lambda name: self.tier[name])

    def around(self, tasks):
        """The lowest hypernode that holds all that have a node."""
        found = ""
        for task in tasks:
            if task.status in HAVING_A_NODE:
                found = self.common(found, self.lowest(task.node))
        return found


@dataclass(eq=False)
class Part:
    """A part of a job; the whole job where no policy divides it."""

    uid: str
    policy: int | None
    minimum: int
    limit: int | None
    tasks: list = field(default_factory=list)
    allocated: str = ""
    index: int = 0  # the value of its label where that is a number

    def ready(self, *more):
        return sum(task.status in {*HAVING_A_NODE, SUCCEEDED, *more} or is_bare(task) for task in self.tasks)

    @property
    def is_ready(self):
        return self.ready() >= self.minimum

    @property
    def is_pipelined(self):
        return self.ready(PIPELINED) >= self.minimum


def is_bare(task):
    return task.status == PENDING and task.is_best_effort


def limit_of(topology, network):
    """The highest tier allowed; None: no limit."""
    if not topology or topology[0] == "none":
        return None
    return network.tier[TOP] if topology[0] == "soft" else topology[1]


def divide(job, network):
    whole = limit_of(job.options.get("topo"), network)
    policies, found = job.options.get("sub", []), {}
    for task in job.tasks:
        taken = next((i for i, each in enumerate(policies) if task.labels.get(LABELS[each[0]])), None)
        if taken is None:
            part = found.setdefault("", Part(job.uid, None, 1 if policies else job.minimum, whole))
        else:
            row = policies[taken]
            options, value = row[-1], task.labels[LABELS[row[0]]]
            limit = limit_of(row[1:], network)
            if row[1] == "soft" and whole is not None:
                limit = whole
            part = Part(
                f"{job.uid}/policy-{taken}-{value}", taken, options["size"], limit, index=int(value) if value.isdigit() else 0
            )
            part = found.setdefault(part.uid, part)
        part.tasks.append(task)
    for part in found.values():
        part.allocated = network.around(part.tasks)
    return list(found.values())


def counts(job, parts, test):
    """Whether as many parts of each policy pass as it wants at least."""
    for i, row in enumerate(job.options.get("sub", [])):
        if sum(part.policy == i and test(part) for part in parts) < row[-1]["minSubGroups"]:
            return False
    return True
