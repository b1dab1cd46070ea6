"""Evictions over many cycles: none is superfluous, and who they are for gets the place."""

from collections import Counter

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from pyroclast_scheduler.cache.cache import Cache
from tests.scenarios import objects, runner
from tests.scenarios.taking import take
from tests.unit.scheduler.deciding import committed, configured

CYCLES = 14
PLUGINS = """
tiers:
- plugins: [{name: priority}, {name: gang, enablePreemptable: false}, {name: conformance}]
- plugins: [{name: predicates}, %s{name: nodeorder}]
"""


def chosen(actions):
    queues = "" if actions == "allocate, preempt" else "{name: proportion}, "  # whose limits are another reason to evict
    text = f'actions: "{actions}"{PLUGINS % queues}'
    return configured(text)


class World:
    """Nodes that run what is bound, let go what is evicted, and a controller that makes such pods anew."""

    def __init__(self, tables, actions):
        self.cache, self.settings = Cache(), chosen(actions)
        runner.feed(self.cache, {key: tables[key] for key in ("nodes", "queues", "podgroups")})
        self.pods = {row[0]: row for row in tables["pods"]}
        for row in tables["pods"]:
            self.cache.pod_changed(None, objects.pod(row))
        self.moment = 0

    def cycle(self):
        """One cycle and what follows from it; the evictions, the promises, and what was free beside the binds."""
        self.moment += 1
        outcome, commits = committed(self.cache, self.settings, now=objects.NOW + self.moment, period=self.moment)
        tasks = self.cache.tasks
        promised = [(tasks[uid].name, node) for uid, node in outcome.promised.items()]
        evicted = [(each.task.name, each.task.node) for commit in commits for each in commit.evictions]
        for waiting in outcome.waiting:
            if waiting.nominated:
                self.cache.pods.nominate(waiting.task.uid, waiting.nominated)
        take(self.cache, outcome)
        for commit in commits:
            for binds in commit.binds:
                for uid, node in binds.placed:
                    self.change(tasks[uid].name, node)
        free = self.free()
        for name, _ in evicted:
            row = self.pods.pop(name)
            self.cache.pod_changed(objects.pod(row), None)
            self.pods[f"{name}x"] = [f"{name}x", row[1], "-", *row[3:]]
            self.cache.pod_changed(None, objects.pod(self.pods[f"{name}x"]))
        return evicted, promised, free

    def change(self, name, node):
        before = self.pods[name]
        self.pods[name] = [*before[:2], node, *before[3:]]
        self.cache.pod_changed(objects.pod(before), objects.pod(self.pods[name]))

    def free(self):
        """Idle CPU of each node."""
        free = {}
        for name, row in self.cache.nodes.rows.items():
            columns = self.cache.nodes.columns
            free[name] = int(columns.allocatable[0, row] - columns.used[0, row]) // 1000
        return free

    def cpu(self, name):
        return self.pods.get(name, self.pods.get(f"{name}x"))[3]


@st.composite
def full_clusters(draw):
    """Running jobs that fill nodes, and more important ones that wait, all of the same queue or of two."""
    nodes = [[f"n{i}", draw(st.integers(2, 8)), "64Gi"] for i in range(draw(st.integers(1, 3)))]
    queues = [[f"q{i}", {"weight": draw(st.integers(1, 3))}] for i in range(2)]
    groups, pods, free = [], [], {row[0]: row[1] for row in nodes}
    for i in range(draw(st.integers(1, 5))):
        queue = draw(st.sampled_from(["q0", "q1"]))
        groups.append([f"low{i}", queue, 1, {"phase": "Running", "class": 10}])
        for number in range(draw(st.integers(1, 3))):
            fitting = [name for name, left in free.items() if left]
            if not fitting:
                break
            node = draw(st.sampled_from(fitting))
            cpu = draw(st.integers(1, free[node]))
            free[node] -= cpu
            pods.append([f"low{i}-{number}", f"low{i}", node, cpu, "1Gi", {"prio": 10, "preemptable": True}])
    for i in range(draw(st.integers(1, 3))):
        size = draw(st.integers(1, 2))
        groups.append([f"high{i}", draw(st.sampled_from(["q0", "q1"])), size, {"phase": "Inqueue", "class": 1000}])
        cpu = draw(st.integers(1, 6))
        pods += [[f"high{i}-{number}", f"high{i}", "-", cpu, "1Gi", {"prio": 1000}] for number in range(size)]
    return {"nodes": nodes, "queues": queues, "podgroups": groups, "pods": pods}


PLAIN = ["allocate, preempt", "allocate, reclaim"]


@settings(max_examples=15, suppress_health_check=[HealthCheck.too_slow])
@given(full_clusters(), st.sampled_from(PLAIN))
def test_no_pod_is_evicted_needlessly_and_the_waiting_pod_gets_the_freed_node(tables, actions):
    world = World(tables, actions)
    owed = {}
    for _ in range(CYCLES):
        evicted, promised, free = world.cycle()
        by_node = Counter(node for _, node in promised)
        for name, node in evicted:
            if by_node[node] != 1:
                continue  # what each of several takes is their own matter
            (beneficiary,) = [pod for pod, where in promised if where == node]
            others = sum(world.cpu(each) for each, where in evicted if where == node and each != name)
            assert free[node] + others < world.cpu(beneficiary), f"{name} went for nothing"
        nodes = {node for _, node in evicted}
        assert nodes <= {node for _, node in promised}, "nobody goes for nobody"
        for pod, node in owed.items():
            assert world.pods[pod][2] == node or (pod, node) in promised, f"{pod} did not get its place"
        owed = {pod: node for pod, node in promised if node in nodes}


def test_only_the_large_victim_is_evicted_when_it_alone_frees_enough():
    pods = [["a-0", "a", "n", 1, "1Gi", {"prio": 5}], ["b-0", "b", "n", 4, "1Gi", {"prio": 10}]]
    groups = [["a", "q", 1, {"phase": "Running", "class": 5}], ["b", "q", 1, {"phase": "Running", "class": 10}]]
    pods.append(["high-0", "high", "-", 4, "1Gi", {"prio": 1000}])
    groups.append(["high", "q", 1, {"phase": "Inqueue", "class": 1000}])
    world = World({"nodes": [["n", 5, "64Gi"]], "queues": [["q", {}]], "podgroups": groups, "pods": pods}, "allocate, preempt")
    evicted, promised, _ = world.cycle()
    assert evicted == [("b-0", "n")]
    assert promised == [("high-0", "n")]
    world.cycle()
    assert world.pods["high-0"][2] == "n"
    assert world.pods["a-0"][2] == "n"


HIGH, LOW = 1_000_000, 1
BY_PODS = {
    "a class that the pods do not have evicts nobody": (HIGH, LOW, LOW, LOW, []),
    "a class that the pods do not have protects nobody": (LOW, HIGH, HIGH, LOW, ["v1"]),
    "the priority of the pods evicts, whatever the class of the Job": (LOW, HIGH, LOW, LOW, ["v1"]),
    "the priority of the pods protects, whatever the class of the Job": (HIGH, HIGH, LOW, HIGH, []),
    "pods without a priority have that of the class": (HIGH, None, LOW, None, ["v1"]),
}


@pytest.mark.parametrize("action", ["preempt", "gangpreempt"])
@pytest.mark.parametrize(("mine", "my_pod", "theirs", "their_pod", "want"), BY_PODS.values(), ids=BY_PODS)
def test_the_priority_that_the_api_server_gave_to_pods_decides_who_evicts(action, mine, my_pod, theirs, their_pod, want):
    def of(priority):
        return {} if priority is None else {"prio": priority}

    cache = Cache()
    runner.feed(
        cache,
        {
            "nodes": [["n", 4, "4Gi"]],
            "queues": [["root", {}], ["q", {}]],
            "podgroups": [["victim", "q", 1, {"class": theirs, "phase": "Running"}], ["new", "q", 1, {"class": mine}]],
            "pods": [["v1", "victim", "n", 4, "1Gi", of(their_pod)], ["p1", "new", "-", 4, "1Gi", of(my_pod)]],
        },
    )
    _, commits = committed(cache, chosen(f"allocate, {action}"))
    assert [each.task.name for commit in commits for each in commit.evictions] == want
