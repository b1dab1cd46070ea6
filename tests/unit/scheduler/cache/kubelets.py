"""A cluster as it really is, and a scheduler that sees it late: API server, kubelets and controllers by chance, step by step.

The truth is pods and nodes; the scheduler has a cache that events reach later, twice, or by a new list. Its binds and evictions
are carried out some steps after they were decided, or refused. A pod that goes is made anew by its controller.
"""

from __future__ import annotations

from collections import deque
from random import Random

from pyroclast_scheduler.cache.cache import Cache
from pyroclast_scheduler.model.tasks import READY
from tests.scenarios import objects
from tests.scenarios.taking import assume_all, take_rests
from tests.unit.scheduler.deciding import committed, configured

CONFIGURATION = """
actions: "enqueue, allocate, preempt, backfill"
tiers:
- plugins: [{name: priority}, {name: gang}, {name: conformance}]
- plugins: [{name: predicates}, {name: proportion}, {name: nodeorder}, {name: binpack}]
"""
NODES = {"n0": (4, 8), "n1": (8, 16), "n2": (2, 4)}  # cpu, memory in Gi
MOST_PODS = 6
MOST_GANGS = 8
STEPS = {  # how often, against each other
    "deliver": 60,
    "cycle": 8,
    "carry_out": 30,
    "finish": 6,
    "fail": 1,
    "clear": 8,
    "make_gang": 5,
    "end_gang": 2.5,
    "lose_node": 0.3,
    "return_node": 2,
    "list_anew": 0.5,
    "crash": 0.2,
    "try_again": 4,
}


class OverCommitted(AssertionError):
    """A kubelet was given more than its node has."""


class PlacedInPart(AssertionError):
    """Fewer pods of a gang were placed than it needs."""


class World:
    """`pods` by name: [name, gang, node or -, cpu, memory, options]; `gangs` by name: [name, queue, minimum, options]."""

    def __init__(self, seed: int) -> None:
        self.random = Random(seed)
        self.pods, self.gangs, self.nodes = {}, {}, dict.fromkeys(NODES, True)
        self.number = self.period = 0
        self.counts = dict.fromkeys([*STEPS, "bound", "refused", "evicted", "outdated"], 0)
        self.settings = configured(CONFIGURATION)
        self.start()

    def step(self) -> None:
        name = self.random.choices(list(STEPS), list(STEPS.values()))[0]
        self.counts[name] += 1
        getattr(self, name)()

    # -- what the scheduler sees -----------------------------------------------------------------------------------------

    def start(self) -> None:
        """A scheduler that lists all there is."""
        self.cache, self.seen = Cache(now=lambda: 0.0), {}
        self.events, self.in_flight, self.refused = {kind: deque() for kind in ("pod", "node", "gang")}, deque(), []
        self.cache.queue_changed(None, objects.queue(["q"]))
        self.cache.priority_changed(None, objects.priority_class(10))
        self.list_anew()

    def record(self, kind: str, name: str):
        """The object as the API server has it now; None: it is gone."""
        if kind == "node":
            cpu, memory = NODES[name]
            return objects.node([name, cpu, f"{memory}Gi", {"pods": MOST_PODS}]) if self.nodes[name] else None
        rows = self.pods if kind == "pod" else self.gangs
        return (objects.pod if kind == "pod" else objects.pod_group)(rows[name]) if name in rows else None

    def changed(self, kind: str, name: str) -> None:
        self.events[kind].append((name, self.record(kind, name)))

    def deliver(self) -> None:
        waiting = [kind for kind, events in self.events.items() if events]
        if waiting:
            kind = self.random.choice(waiting)
            name, record = self.events[kind].popleft()
            self.show(kind, name, record)
            if self.random.random() < 0.05 and record is not None:
                self.show(kind, name, record)

    def show(self, kind: str, name: str, record) -> None:
        before = self.seen.get((kind, name))
        if before is None and record is None:
            return
        tell = {"pod": self.cache.pod_changed, "node": self.cache.node_changed, "gang": self.cache.group_changed}[kind]
        tell(before, record)
        self.seen[kind, name] = record

    def list_anew(self) -> None:
        """The watches broke: what happened between is not told."""
        for events in self.events.values():
            events.clear()
        known = {*self.seen, *(("node", name) for name in NODES), *(("gang", name) for name in self.gangs)}
        for kind, name in sorted(known | {("pod", name) for name in self.pods}):
            self.show(kind, name, self.record(kind, name))

    def crash(self) -> None:
        """What is under way is carried out or lost; the next scheduler lists."""
        while self.in_flight:
            if self.random.random() < 0.5:
                self.carry_out()
            else:
                self.in_flight.popleft()
        self.start()

    # -- what the scheduler does -----------------------------------------------------------------------------------------

    def cycle(self) -> None:
        self.period += 1
        self.cache.recheck()
        snapshot = self.cache.snapshot()
        outcome, commits = committed(snapshot, self.settings, now=objects.NOW + self.period, period=self.period)
        self.check_gangs(snapshot, commits)
        for _ in range(self.random.choice([0, 0, 0, 1, 4])):
            self.deliver()  # while it decided
        for commit in commits:
            for eviction in commit.evictions:
                self.cache.pods.releasing(eviction.task.uid)
                self.in_flight.append(("evict", eviction.task.name, ""))
            for binds in commit.binds:
                self.take(binds)
        for waiting in outcome.waiting:
            if waiting.nominated:
                self.cache.pods.nominate(waiting.task.uid, waiting.nominated)
        for key, status in outcome.statuses.items():
            row = self.gangs.get(key.partition("/")[2])
            if row is not None:
                row[3]["phase"] = str(status.phase)
                self.changed("gang", row[0])
        take_rests(self.cache, outcome)

    @staticmethod
    def check_gangs(snapshot, commits) -> None:
        """Whether each gang of which something is placed is whole, as far as the scheduler could know."""
        placed: dict[str, set[str]] = {}
        for binds in (binds for commit in commits for binds in commit.binds):
            placed.setdefault(binds.job, set()).update(uid for uid, _ in binds.placed)
        for key, uids in placed.items():
            facts = snapshot.all_jobs[key]
            ready = uids | {task.uid for task in facts.tasks if task.status in READY}
            if len(ready) < facts.min_available:
                raise PlacedInPart(f"{key}: {len(ready)} of {facts.min_available}")

    def take(self, binds) -> None:
        if assume_all(self.cache, binds.placed) is not None:
            self.counts["outdated"] += 1
            return
        self.in_flight += [("bind", uid.removeprefix("t-"), node) for uid, node in binds.placed]

    def carry_out(self) -> None:
        """One bind or eviction that is under way reaches the API server; a few are refused there."""
        if not self.in_flight:
            return
        at = self.random.randrange(len(self.in_flight))
        what, name, node = self.in_flight[at]
        del self.in_flight[at]
        row, is_refused = self.pods.get(name), self.random.random() < 0.05
        if what == "evict":
            if row is not None and not is_refused:
                self.counts["evicted"] += 1
                row[5]["releasing"] = True
                self.changed("pod", name)
            elif row is not None:
                self.cache.pods.restore(f"t-{name}")
        elif row is None or is_refused or row[2] != "-" or row[5].get("releasing"):
            self.counts["refused"] += 1
            self.cache.pods.forget(f"t-{name}", is_refused=row is not None)
            self.refused.append(f"t-{name}")
        else:
            self.counts["bound"] += 1
            row[2], row[5]["phase"] = node, "Running"
            self.changed("pod", name)
            self.check(node)

    def try_again(self) -> None:
        while self.refused:
            self.cache.pods.release(self.refused.pop())

    def check(self, node: str) -> None:
        """Whether the kubelet can run all that it was given."""
        there = [row for row in self.pods.values() if row[2] == node and row[5]["phase"] == "Running"]
        cpu, memory = sum(row[3] for row in there), sum(int(row[4].removesuffix("Gi")) for row in there)
        if cpu > NODES[node][0] or memory > NODES[node][1] or len(there) > MOST_PODS:
            raise OverCommitted(f"{node}: {cpu} cpu, {memory} Gi, {len(there)} pods: {there}")

    # -- what others do --------------------------------------------------------------------------------------------------

    def make_gang(self) -> None:
        if len(self.gangs) >= MOST_GANGS:
            return
        self.number += 1
        name, size = f"g{self.number}", self.random.randint(1, 5)
        options = {"phase": "Pending"} | ({"class": 10} if self.random.random() < 0.3 else {})
        self.gangs[name] = [name, "q", self.random.randint(1, size), options]
        self.changed("gang", name)
        cpu, memory = self.random.randint(1, 3), self.random.randint(0, 4)
        for _ in range(size):
            self.make_pod(name, cpu, memory)

    def make_pod(self, gang: str, cpu: int, memory: int) -> None:
        self.number += 1
        name = f"{gang}-p-{self.number}"
        self.pods[name] = [name, gang, "-", cpu, f"{memory}Gi", {"phase": "Pending"}]
        self.changed("pod", name)

    def some(self, fits) -> list | None:
        found = [row for row in self.pods.values() if fits(row)]
        return self.random.choice(found) if found else None

    def finish(self) -> None:
        self.end("Succeeded")

    def fail(self) -> None:
        self.end("Failed")

    def end(self, phase: str) -> None:
        row = self.some(lambda row: row[5]["phase"] == "Running" and self.nodes[row[2]])
        if row is not None:
            row[5]["phase"] = phase
            self.changed("pod", row[0])
            if phase == "Failed":
                self.make_pod(row[1], row[3], int(row[4].removesuffix("Gi")))

    def clear(self) -> None:
        """A pod that was told to go is gone, or one whose node is lost; its controller makes another."""
        row = self.some(lambda row: row[5].get("releasing") or (row[2] != "-" and not self.nodes[row[2]]))
        if row is not None:
            self.remove(row[0])
            if row[1] in self.gangs:
                self.make_pod(row[1], row[3], int(row[4].removesuffix("Gi")))

    def remove(self, name: str) -> None:
        del self.pods[name]
        self.changed("pod", name)

    def end_gang(self) -> None:
        if self.gangs:
            name = self.random.choice(list(self.gangs))
            del self.gangs[name]
            self.changed("gang", name)
            for pod in [row[0] for row in self.pods.values() if row[1] == name]:
                self.remove(pod)

    def lose_node(self) -> None:
        name = self.random.choice(list(NODES))
        self.nodes[name] = False
        self.changed("node", name)

    def return_node(self) -> None:
        """It comes back once nothing is left of what it had."""
        for name, is_there in self.nodes.items():
            if not is_there and not any(row[2] == name for row in self.pods.values()):
                self.nodes[name] = True
                self.changed("node", name)
