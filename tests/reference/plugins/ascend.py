"""Chips of Ascend as HAMi divides them (scheduler-plugins 5.5): one kind of chip."""

import json
from collections import Counter
from fractions import Fraction

from tests.reference.model import ALLOCATED, PENDING, PIPELINED
from tests.reference.session import OK, RESOLVABLE, UNRESOLVABLE

from .selectors import present

BUILT_IN = {
    "commonWord": "Ascend310P",
    "resourceName": "huawei.com/Ascend310P",
    "resourceMemoryName": "huawei.com/Ascend310P-memory",
    "memoryAllocatable": 21527,
    "memoryCapacity": 24576,
    "templates": [{"name": "vir01", "memory": 3072}, {"name": "vir02", "memory": 6144}, {"name": "vir04", "memory": 12288}],
}


class Ascend:
    def __init__(self, session, policy, chip):
        self.session, self.policy, self.chip = session, policy, chip
        self.word = chip["commonWord"]
        self.got = {}  # task name → [(card, memory)], of those that got a place

    def wish(self, task):
        """(chips, memory of each, None if no chip has as much); None: it asks for none."""
        has, chip = task.options, self.chip
        number, memory = chip["resourceName"], chip["resourceMemoryName"]
        if number not in has and memory not in has:
            return None
        wanted = has.get(memory) or chip["memoryAllocatable"]
        sizes = sorted(each["memory"] for each in chip["templates"] if each["memory"] >= wanted)
        size = sizes[0] if sizes else chip["memoryAllocatable"] if wanted <= chip["memoryCapacity"] else None
        return has.get(number, 1), size

    def cards(self, node):
        """[(name, memory, slots, network)] of those that are well; None: it has none of the kind."""
        text = node.annotations.get(f"hami.io/node-register-{self.word}")
        if not node.allocatable.get(self.chip["resourceName"]) or not text or not json.loads(text):
            return None
        listed = [each for each in json.loads(text) if each["health"]]
        return [(each["id"], each["devmem"], each["count"], each.get("custominfo", {}).get("NetworkID")) for each in listed]

    def held(self, task):
        if task.name in self.got:
            return self.got[task.name]
        text = task.annotations.get(f"hami.io/{self.word}-devices-allocated") or ""
        parts = [each.split(",") for each in text.replace(";", "").split(":")]
        return [(each[0], int(each[2])) for each in parts if len(each) == 4]

    def users(self, node):
        """{card: [memory of each user]}."""
        found = {}
        for task in present(self.session, node):
            for card, memory in self.held(task) if self.wish(task) else []:
                found.setdefault(card, []).append(memory)
        return found

    def is_connected(self, cards):
        return self.word.startswith("Ascend910") and all(card[3] is not None for card in cards)

    def choose(self, task, node):
        """Names of the chips; None: not enough."""
        number, size = self.wish(task)
        users, cards = self.users(node), self.cards(node)
        fitting = [
            card for card in cards if len(users.get(card[0], [])) < card[2] and card[1] - sum(users.get(card[0], [])) >= size
        ]
        if self.policy == "binpack":
            fitting.sort(key=lambda card: -sum(users.get(card[0], [])))
        if self.policy == "spread":
            fitting.sort(key=lambda card: len(users.get(card[0], [])))
        if self.is_connected(cards):
            networks = [card[3] for card in fitting]
            fitting.sort(key=lambda card: (-networks.count(card[3]), networks.index(card[3])))
        return [card[0] for card in fitting[:number]] if len(fitting) >= number else None

    def predicate(self, task, node):
        if self.wish(task) is None:
            return OK
        number, size = self.wish(task)
        if self.cards(node) is None or size is None or (number > 1 and size != self.chip["memoryAllocatable"]):
            return UNRESOLVABLE
        return RESOLVABLE if self.choose(task, node) is None else OK

    def score(self, task, node):
        if self.predicate(task, node) != OK or self.wish(task) is None:
            return Fraction(0)
        chosen, users, cards = self.choose(task, node), self.users(node), self.cards(node)
        total = Fraction(0)
        for name, memory, _, _ in cards:
            if name in chosen and self.policy == "binpack":
                total += Fraction(100 * (sum(users.get(name, [])) + self.wish(task)[1]), memory)
            if name in chosen and self.policy == "spread" and not users.get(name):
                total += 100
        if self.is_connected(cards):
            groups = Counter(card[3] for card in cards if card[0] in chosen)
            total += Fraction(10 * max(groups.values()), len(chosen))
        return total

    def moved(self, task, before):
        if task.status in {ALLOCATED, PIPELINED} and self.wish(task):
            node = next(node for node in self.session.nodes if node.name == task.node)
            self.got[task.name] = []
            can = self.predicate(task, node) == OK
            self.got[task.name] = [(name, self.wish(task)[1]) for name in self.choose(task, node)] if can else []
        elif task.status == PENDING:
            self.got.pop(task.name, None)
