"""With constant demand evictions end: whatever the cluster, the queues and the pods, a fixed point is reached."""

from __future__ import annotations

import random
from collections.abc import Iterable

import pytest

from tests.unit.scheduler import deciding
from tests.unit.scheduler.eviction.constant_demand import Demand, World, steps_to_rest

SEEDS = 12
SOAK = 700
ACTIONS = ("reclaim", "gangreclaim", "preempt", "gangpreempt", "preempt, reclaim", "gangpreempt, gangreclaim", "shuffle")
TIERS = {
    "capacity": "{name: capacity}",
    "tree": "{name: capacity, enableHierarchy: true, arguments: {ancestorReclaimLevel: %d}}",
    "proportion": "{name: proportion}",
    "no queue plugin": "{name: nodeorder}",
    "drf": "{name: drf, enableHierarchy: true}",
}

LACKING = (("a", 1, "4Gi"), ("b", 2, "1Gi"))
DOCUMENTED = """
actions: "enqueue, allocate, reclaim, backfill"
tiers:
- plugins:
  - {name: priority}
  - {name: gang, enableReclaimable: false}
  - {name: conformance}
  - {name: capacity, enableHierarchy: true, arguments: {ancestorReclaimLevel: 1}}
- plugins: [{name: predicates}, {name: nodeorder}]
"""
"""The configuration of docs/plugins/capacity.md."""


def configuration(rng: random.Random, action: str, kind: str):
    quota = TIERS[kind] % rng.randrange(3) if "%" in TIERS[kind] else TIERS[kind]
    first = ["{name: priority}"] * (rng.random() < 0.7)
    first += [rng.choice(["{name: gang}", "{name: gang, enableReclaimable: false, enablePreemptable: false}"])]
    first += ["{name: conformance}"]
    second = ["{name: drf}"] * (kind != "tree" and rng.random() < 0.5) + ["{name: predicates}", "{name: nodeorder}"]
    (first if rng.random() < 0.6 else second).append(quota)
    if action == "shuffle":
        low, high = rng.choice([20, 40, 60]), rng.choice([50, 70, 90])
        strategy = f"{{name: lowNodeUtilization, params: {{thresholds: {of(low)}, targetThresholds: {of(high)}}}}}"
        second.append(f"{{name: rescheduling, arguments: {{interval: 0s, strategies: [{strategy}]}}}}")
        second += ["{name: binpack}"] * (rng.random() < 0.5)
    if action.startswith("gang"):
        first = [each.replace(", enableReclaimable: false, enablePreemptable: false", "") for each in first]
    actions = f"enqueue, allocate, {action}, backfill"
    return deciding.configured(
        f'actions: "{actions}"\ntiers:\n- plugins: [{", ".join(first)}]\n- plugins: [{", ".join(second)}]\n'
    )


def of(percent: int) -> str:
    return f"{{cpu: {percent}, memory: {percent}}}"


def world(seed: int, action: str, kind: str) -> World:
    rng = random.Random(f"{seed} {action} {kind}")
    nodes = [[f"n{i}", rng.choice([4, 8]), f"{rng.choice([8, 16])}Gi"] for i in range(rng.randint(1, 5))]
    names = [f"q{i}" for i in range(rng.randint(2, 4) if "reclaim" in action else 1)]
    queues: list = [["root", {}]] if kind == "tree" else []
    if kind == "tree":
        queues += [[f"p{i}", {"parent": "root", "deserved": deserved(rng)}] for i in range(2)]
    for name in names:
        options = {"weight": rng.randint(1, 3), "priority": rng.choice([0, 0, 0, 5])}
        if kind != "proportion":
            options["deserved"] = deserved(rng)
        if kind == "tree":
            options["parent"] = rng.choice(["root", "p0", "p1"])
        queues.append([name, options])
    demands = []
    for i in range(rng.randint(4, 12)):
        pods = rng.choice([1, 1, 2, 3, 4])
        demands.append(
            Demand(
                f"j{i}",
                rng.choice(names),
                pods,
                rng.randint(1, pods),
                rng.randint(1, 4),
                f"{rng.randint(1, 6)}Gi",
                rng.choice([0, 0, 5, 10]),
            )
        )
    return World(configuration(rng, action, kind), nodes, queues, demands, graceful=rng.randint(1, 3))


def deserved(rng: random.Random) -> dict[str, object]:
    amounts = {"cpu": rng.randint(1, 12), "memory": f"{rng.randint(1, 24)}Gi"}
    return {name: amount for name, amount in amounts.items() if rng.random() < 0.85}


def restless(seeds: Iterable[int], action: str, kind: str) -> list[int]:
    """The seeds of the clusters in which evictions do not end."""
    return [seed for seed in seeds if steps_to_rest(world(seed, action, kind), 80) is None]


def test_two_queues_that_each_lack_a_resource_which_the_other_has_come_to_rest() -> None:
    """Both may reclaim and both may lose pods: 210 evictions in two minutes, before evictions had a measure."""
    options = {"parent": "root", "deserved": {"cpu": 8, "memory": "16Gi"}}
    demands = [Demand(f"{name}{i}", name, 1, 1, cpu, memory) for i in range(10) for name, cpu, memory in LACKING]
    settings = deciding.configured(DOCUMENTED)
    cluster = World(settings, [["n0", 8, "16Gi"], ["n1", 8, "16Gi"]], [["root", {}], ["a", options], ["b", options]], demands)
    assert steps_to_rest(cluster, 40) is not None
    assert sum(len(names) for _, names in cluster.evictions) <= 2
    assert sum(cluster.running().values()) == 10


def test_further_pods_of_a_job_take_no_room_that_an_eviction_made_for_another_job() -> None:
    """Both Jobs have pods with nominated nodes; the one of the better queue had its minimum, and took both nodes in turn."""
    assert restless([405], "reclaim", "proportion") == []


@pytest.mark.parametrize("kind", TIERS)
@pytest.mark.parametrize("action", ACTIONS)
def test_evictions_end_in_random_clusters_with_constant_demand(action: str, kind: str) -> None:
    assert restless(range(SEEDS), action, kind) == []


@pytest.mark.soak
@pytest.mark.parametrize("kind", TIERS)
@pytest.mark.parametrize("action", ACTIONS)
def test_evictions_end_in_many_random_clusters_with_constant_demand(action: str, kind: str) -> None:
    assert restless(range(SEEDS, SOAK), action, kind) == []
