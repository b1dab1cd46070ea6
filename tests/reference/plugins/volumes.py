"""Claims on volumes, as filters see them: VolumeBinding, VolumeZone, NodeVolumeLimits (scheduler-plugins 15.5)."""

from tests.reference.amounts import number
from tests.reference.model import ALLOCATED, BINDING, PENDING, PIPELINED
from tests.reference.session import OK, RESOLVABLE, UNRESOLVABLE

from .selectors import present

ZONE = "topology.kubernetes.io/zone"
NEW = ""  # in place of the name of a volume: one is to be made


class Volumes:
    def __init__(self, session):
        self.session = session
        tables = session.tables
        self.claims, self.volumes = tables.get("claims", {}), tables.get("volumes", {})
        self.classes, self.limits = tables.get("storageClasses", {}), tables.get("csiNodes", {})
        self.chosen = {}  # task name → (node name, {claim name: volume name})

    @staticmethod
    def names(task):
        return [*task.options.get("pvc", []), *(f"{task.name}-{each}" for each in task.options.get("ephemeral", []))]

    def binding(self, task, node):
        names = self.names(task)
        if any(self.is_hopeless(task, name) for name in names):
            return UNRESOLVABLE
        for name in names:
            volume, tied = self.state(name)
            if volume is not None and (volume not in self.volumes or not self.reaches(volume, node)):
                return UNRESOLVABLE
            if volume is None and tied is not None and tied != node.name:
                return UNRESOLVABLE
        if None in self.distribute(names, node).values():
            return UNRESOLVABLE
        single = [name for name in names if "ReadWriteOncePod" in self.claims[name].get("modes", [])]
        users = [used for place in self.session.nodes for other in present(self.session, place) for used in self.names(other)]
        return RESOLVABLE if any(name in users for name in single) else OK

    def is_hopeless(self, task, name):
        """Whether the claim is missing, not the pod's, lost, or bound by nobody that waits for a pod."""
        claim = self.claims.get(name)
        if claim is None or claim.get("phase") == "Lost":
            return True
        if name not in task.options.get("pvc", []) and claim.get("owner") != task.name:
            return True
        waits = self.classes.get(claim.get("class", ""), {"mode": ""}).get("mode", "WaitForFirstConsumer")
        return "volume" not in claim and waits != "WaitForFirstConsumer"

    def state(self, name):
        """(volume, node) that the claim has, or that were chosen for it; None for what is open."""
        claim = self.claims[name]
        if "volume" in claim:
            return claim["volume"], None
        for node, choices in self.chosen.values():
            if name in choices:
                return choices[name] or None, node
        return None, claim.get("node")

    def reaches(self, volume, node):
        nodes = self.volumes[volume].get("nodes")
        return nodes is None or node.labels.get("kubernetes.io/hostname") in nodes

    def distribute(self, names, node):
        """What each open claim would get on the node, the smallest first; None: nothing."""
        taken = {volume for _, choices in self.chosen.values() for volume in choices.values()}
        found = {}
        for name in sorted(dict.fromkeys(names), key=lambda name: (self.size(self.claims[name], "5Gi"), name)):
            if self.state(name) == (None, None):
                found[name] = self.match(name, node, taken | set(found.values()))
        return found

    @staticmethod
    def size(given, default):
        return number(given.get("size", default))

    def match(self, name, node, taken):
        claim = self.claims[name]
        fitting = []
        for volume, given in sorted(self.volumes.items(), key=lambda item: (self.size(item[1], "10Gi"), item[0])):
            if volume in taken or given.get("class", "") != claim.get("class", "") or given.get("claim") not in {None, name}:
                continue
            if self.size(given, "10Gi") < self.size(claim, "5Gi"):
                continue
            if given.get("claim") == name:
                if self.reaches(volume, node):
                    return volume
                fitting = []
                break
            modes = [set(each.get("modes", ["ReadWriteOnce"])) for each in (claim, given)]
            if given.get("phase", "Available") == "Available" and modes[0] <= modes[1] and self.reaches(volume, node):
                fitting.append((self.size(given, "10Gi"), volume))
        if fitting:
            return min(fitting)[1]
        made = self.classes[claim["class"]]
        is_made = made.get("provisioner", "kubernetes.io/no-provisioner") != "kubernetes.io/no-provisioner"
        return NEW if is_made and ("zones" not in made or node.labels.get("zone") in made["zones"]) else None

    def zone(self, task, node):
        for name in self.names(task):
            zone = self.volumes.get(self.claims.get(name, {}).get("volume"), {}).get("zone")
            if zone is not None and ZONE in node.labels and node.labels[ZONE] not in zone.split("__"):
                return UNRESOLVABLE
        return OK

    def attached(self, task):
        """(driver, volume) of each CSI volume of a pod; one that is still to be made goes by its claim."""
        found = set()
        for name in self.names(task):
            claim = self.claims.get(name)
            if claim is None:
                continue
            volume = self.volumes.get(claim.get("volume"))
            made = self.classes.get(claim.get("class", ""), {})
            if volume is not None and "driver" in volume:
                found.add((volume["driver"], claim["volume"]))
            if volume is None and made:
                found.add((made.get("provisioner", "kubernetes.io/no-provisioner"), name))
        return found

    def limit(self, task, node):
        there = set()
        for other in present(self.session, node):
            there |= self.attached(other)
        coming = self.attached(task) - there
        for driver, most in self.limits.get(node.name, {}).items():
            more = sum(each[0] == driver for each in coming)
            if more and sum(each[0] == driver for each in there) + more > most:
                return RESOLVABLE
        return OK

    def moved(self, task):
        if task.status in {ALLOCATED, PIPELINED} and self.names(task):
            node = next(node for node in self.session.nodes if node.name == task.node)
            known = {name: self.state(name) for name in self.names(task)}
            kept = {name: volume or NEW for name, (volume, tied) in known.items() if tied is not None}
            self.chosen[task.name] = (task.node, kept | self.distribute(self.names(task), node))
        elif task.status == PENDING or (task.status != BINDING and task.name in self.chosen):
            self.chosen.pop(task.name, None)
