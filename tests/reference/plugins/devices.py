"""Claims on devices (scheduler-plugins 15.5, DynamicResources): one request each, by class, and a class for each driver."""

from tests.reference.model import ALLOCATED, PENDING, PIPELINED
from tests.reference.session import OK, RESOLVABLE, UNRESOLVABLE


class Devices:
    def __init__(self, session):
        tables = session.tables
        self.drivers = {name: text.split('"')[1] for name, text in tables.get("deviceClasses", {}).items()}
        self.claims = tables.get("deviceClaims", {})
        self.pools = {}  # (node, driver) → devices
        for node, devices in tables.get("devices", {}).items():
            for each in devices:
                key = node, each.split()[-1]
                self.pools[key] = self.pools.get(key, 0) + 1
        self.chosen = {}  # task name → (node, its claim)

    def node_of(self, name):
        """Where the claim has its devices; None: it has none."""
        if "has" in self.claims[name]:
            return self.claims[name]["has"][0]
        return next((node for node, claim in self.chosen.values() if claim == name), None)

    def free(self, node, driver):
        taken = 0
        for name, given in self.claims.items():
            own = given["has"][1] if "has" in given else self.drivers.get(given["class"])
            if self.node_of(name) == node and own == driver:
                taken += 1 if "has" in given else given.get("count", 1)
        return self.pools.get((node, driver), 0) - taken

    def filter(self, task, node):
        name = task.options.get("claim")
        if name is None:
            return OK
        if name not in self.claims:
            return UNRESOLVABLE
        if self.node_of(name) is not None:
            return OK if self.node_of(name) == node.name else UNRESOLVABLE
        driver = self.drivers.get(self.claims[name]["class"])
        if driver is None:
            return UNRESOLVABLE
        return OK if self.free(node.name, driver) >= self.claims[name].get("count", 1) else RESOLVABLE

    def moved(self, task):
        if task.options.get("claim") and task.status in {ALLOCATED, PIPELINED}:
            self.chosen[task.name] = task.node, task.options["claim"]
        elif task.status == PENDING:
            self.chosen.pop(task.name, None)
