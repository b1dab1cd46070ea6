"""Predicates: the filters of Kubernetes' own scheduler."""

from tests.reference.session import OK, RESOLVABLE, UNRESOLVABLE

from .devices import Devices
from .selectors import matches, present, term_of, tolerates, wants
from .volumes import Volumes

COUPLED = {"PodAffinity", "PodTopologySpread", "NodeVolumeLimits", "VolumeZone", "VolumeBinding", "DynamicResources"}
UNSCHEDULABLE = {"key": "node.kubernetes.io/unschedulable", "value": "", "effect": "NoSchedule"}


class Predicates:
    def __init__(self, session, flags, arguments):
        self.session = session
        self.volumes, self.devices = Volumes(session), Devices(session)
        self.by_name = {
            "NodeAffinity": self.affinity,
            "TaintToleration": self.taints,
            "NodePorts": self.ports,
            "PodAffinity": self.pod_affinity,
            "PodTopologySpread": self.spread,
            "NodeVolumeLimits": self.volumes.limit,
            "VolumeZone": self.volumes.zone,
            "VolumeBinding": self.volumes.binding,
            "DynamicResources": self.devices.filter,
        }
        self.is_on = {key.removeprefix("predicate.").removesuffix("Enable"): value for key, value in arguments.items()}

    def predicate(self, task, node):
        checks = [self.pods, self.unschedulable]
        checks += [check for name, check in self.by_name.items() if self.is_on.get(name, True)]
        found = [check(task, node) for check in checks]
        return UNRESOLVABLE if UNRESOLVABLE in found else RESOLVABLE if RESOLVABLE in found else OK

    def moved(self, task, before):
        if self.is_on.get("VolumeBinding", True):
            self.volumes.moved(task)
        self.devices.moved(task)

    def coupled(self, task, node):
        """Those of the filters that other pods decide, but for ports."""
        found = [check(task, node) for name, check in self.by_name.items() if self.is_on.get(name, True) and name in COUPLED]
        return UNRESOLVABLE if UNRESOLVABLE in found else RESOLVABLE if RESOLVABLE in found else OK

    def crowded(self, task, node):
        """By number and by ports."""
        has_port = OK if not self.is_on.get("NodePorts", True) else self.ports(task, node)
        return RESOLVABLE if RESOLVABLE in {has_port, self.pods(task, node)} else OK

    def pods(self, task, node):
        return RESOLVABLE if node.allocatable["pods"] <= len(present(self.session, node)) else OK

    def unschedulable(self, task, node):
        return UNRESOLVABLE if node.unschedulable and not tolerates(task, UNSCHEDULABLE) else OK

    def affinity(self, task, node):
        return OK if wants(task, node) else UNRESOLVABLE

    def taints(self, task, node):
        hard = [taint for taint in node.taints if taint["effect"] in {"NoSchedule", "NoExecute"}]
        return OK if all(tolerates(task, taint) for taint in hard) else UNRESOLVABLE

    def ports(self, task, node):
        port = task.options.get("hostPort")
        taken = {other.options.get("hostPort") for other in present(self.session, node)}
        return RESOLVABLE if port is not None and port in taken else OK

    def matching_in(self, namespace, labels, key, value):
        """How many pods match on nodes of the domain; None: of any."""
        count = 0
        for node in self.session.nodes:
            if key in node.labels and value in {None, node.labels[key]}:
                for other in present(self.session, node):
                    count += other.namespace == namespace and matches(labels, other.labels)
        return count

    def pod_affinity(self, task, node):
        if "affine" in task.options:
            key, labels = term_of(task.options["affine"])
            if key not in node.labels:
                return UNRESOLVABLE
            is_first = not self.matching_in(task.namespace, labels, key, None) and matches(labels, task.labels)
            if not is_first and not self.matching_in(task.namespace, labels, key, node.labels[key]):
                return UNRESOLVABLE
        if "anti" in task.options:
            key, labels = term_of(task.options["anti"])
            if key in node.labels and self.matching_in(task.namespace, labels, key, node.labels[key]):
                return RESOLVABLE
        for place in self.session.nodes:
            for other in present(self.session, place):
                if "anti" not in other.options or other.namespace != task.namespace:
                    continue
                key, labels = term_of(other.options["anti"])
                if matches(labels, task.labels) and key in place.labels and place.labels[key] == node.labels.get(key):
                    return RESOLVABLE
        return OK

    def spread(self, task, node):
        given = task.options.get("spread")
        if given is None or given["when"] != "DoNotSchedule":
            return OK
        if given["key"] not in node.labels:
            return UNRESOLVABLE
        counts = spread_counts(self.session, task, given)
        least = min(counts.values(), default=0) if len(counts) >= given.get("minDomains", 1) else 0
        own = matches(given["match"], task.labels)
        here = counts.get(node.labels[given["key"]], 0)
        return RESOLVABLE if here + own - least > given["maxSkew"] else OK


def spread_counts(session, task, given):
    """Matching pods in each domain that the task could be in."""
    counts = {}
    for node in session.nodes:
        value = node.labels.get(given["key"])
        if value is None or not wants(task, node):
            continue
        here = [other for other in present(session, node, going=False) if other.namespace == task.namespace]
        counts[value] = counts.get(value, 0) + sum(matches(given["match"], other.labels) for other in here)
    return counts
