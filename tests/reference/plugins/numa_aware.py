"""Numa-aware (scheduler-plugins 12): CPUs side by side for pods of class Guaranteed with one container; one thread a core."""

from itertools import combinations

from tests.reference.model import ALLOCATED, PENDING, PIPELINED
from tests.reference.session import OK, UNRESOLVABLE

ALIGNING = {"best-effort", "restricted", "single-numa-node"}


class NumaAware:
    def __init__(self, session, flags, arguments):
        self.session, self.weight = session, arguments.get("weight", 1)
        self.nodes = {name: Inside(given) for name, given in session.tables.get("numa", {}).items()}
        self.taken = {}  # task name → (node name, CPUs)
        self.batch_node_order = self.scores if self.weight else None

    @staticmethod
    def policy(task):
        found = task.annotations.get("volcano.sh/numa-topology-policy", "")
        return "" if found == "none" else found

    @staticmethod
    def count(task):
        """Whole CPUs for its own use."""
        cpu = task.request["cpu"]
        return int(cpu // 1000) if cpu % 1000 == 0 else 0

    def free(self, node):
        given = {cpu for name, cpus in self.taken.values() if name == node.name for cpu in cpus}
        return self.nodes[node.name].idle - given

    def predicate(self, task, node):
        if not task.options.get("guaranteed"):
            return OK
        inside, policy = self.nodes.get(node.name), self.policy(task)
        if policy:
            if inside is None or inside.manager != "static" or inside.policy != policy or not self.free(node):
                return UNRESOLVABLE
        elif inside is None or inside.manager != "static" or inside.policy not in ALIGNING:
            return OK
        return UNRESOLVABLE if self.admitted(task, node) is None else OK

    coupled = predicate

    def admitted(self, task, node):
        """The NUMA nodes for the pod; None: it is not admitted."""
        inside, count = self.nodes[node.name], self.count(task)
        free = self.free(node) - inside.reserved
        masks = [mask for size in range(1, len(inside.sizes) + 1) for mask in combinations(inside.sizes, size)]
        fewest = min((len(mask) for mask in masks if sum(inside.sizes[numa] for numa in mask) >= count), default=0)
        hints = [mask for mask in masks if len(inside.within(free, mask)) >= count]
        if count == 0:
            return tuple(inside.sizes)
        if inside.policy == "single-numa-node":
            hints = [mask for mask in hints if len(mask) == fewest == 1]
        everywhere = tuple(inside.sizes)
        best = min(hints, key=lambda mask: (len(mask), sum(2**numa for numa in mask)), default=everywhere)
        is_preferred = bool(hints) and len(best) == fewest
        return best if is_preferred or inside.policy not in {"restricted", "single-numa-node"} else None

    def scores(self, task, nodes):
        if not task.options.get("guaranteed") or not self.policy(task):
            return {}
        spread = {node.name: self.spread(task, node) for node in nodes}
        most = max([1, *spread.values()])
        return {name: (100 - 100 * count // most) * self.weight for name, count in spread.items()}

    def spread(self, task, node):
        if self.predicate(task, node) != OK or not self.count(task):
            return 0
        return len(self.admitted(task, node))

    def moved(self, task, before):
        if task.status in {ALLOCATED, PIPELINED} and task.options.get("guaranteed"):
            self.taken.pop(task.name, None)
            node = next(node for node in self.session.nodes if node.name == task.node)
            inside, policy = self.nodes.get(node.name), self.policy(task)
            is_concerned = inside is not None and inside.manager == "static" and inside.policy in ALIGNING
            if is_concerned and policy in {"", inside.policy} and self.admitted(task, node):
                free = self.free(node) - inside.reserved
                self.taken[task.name] = (node.name, inside.near(free, self.admitted(task, node), self.count(task)))
        elif task.status == PENDING:
            self.taken.pop(task.name, None)


class Inside:
    """CPUs of a node as (NUMA node, number); each NUMA node is a socket."""

    def __init__(self, given):
        self.manager, self.policy = given.get("manager", "static"), given.get("policy", "")
        self.sizes = given["total"]
        self.idle = {
            (numa, at) for numa, count in given["free"].items() for at in range(self.sizes[numa] - count, self.sizes[numa])
        }
        everything = {(numa, at) for numa, size in self.sizes.items() for at in range(size)}
        self.reserved = self.take(everything, int(given.get("reserved", 0)))

    @staticmethod
    def within(cpus, mask):
        return {cpu for cpu in cpus if cpu[0] in mask}

    def near(self, free, mask, count):
        """The CPUs of the mask first; none at all where there are too few."""
        if len(free) < count:
            return set()
        inside = self.within(free, mask)
        first = self.take(inside, min(count, len(inside)))
        return first | self.take(free - first, count - len(first))

    def take(self, free, count):
        """Whole sockets, then CPUs of the sockets with the fewest free ones."""
        found = set()
        for numa, size in self.sizes.items():
            socket = self.within(free, (numa,))
            if len(socket) == size <= count - len(found):
                found |= socket
        rest = free - found
        ordered = sorted(rest, key=lambda cpu: (len(self.within(rest, (cpu[0],))), cpu))
        return found | set(ordered[: count - len(found)])
