"""Clusters in which something protects pods from eviction: disruption budgets, or having been placed just now."""

from __future__ import annotations

from random import Random

from tests.reference.generator import APPS, options, put

COOLDOWN = "volcano.sh/cooldown-time"


def add_pdb(random: Random, case: dict) -> None:
    put(random, case, "pdb", ["preemptable", "reclaimable"])
    for row in case["pods"]:
        if random.random() < 0.8:
            labels = options(row).setdefault("labels", {})
            labels |= {"app": random.choice(APPS), "job": row[1]}
            options(row)["labels"] = labels
    case["budgets"] = []
    for number in range(random.randint(1, 3)):
        jobs = [row[0] for row in case["podgroups"]]
        selector = random.choice([{"app": random.choice(APPS)}, {"job": random.choice(jobs)}, {}])
        budget = {"name": f"b{number}", "selector": selector, "allowed": random.choice([0, 1, 1, 2, 3])}
        if random.random() < 0.3:
            budget["disrupted"] = [random.choice(case["pods"])[0]]
        case["budgets"].append(budget)


def add_dry_run(random: Random, case: dict) -> None:
    """No plugin, but the mode of preempt that tries nodes."""
    given: dict = {"enableTopologyAwarePreemption": True}
    for key, choices in (
        ("minCandidateNodesPercentage", [0, 50, 100]),
        ("minCandidateNodesAbsolute", [0, 1, 3]),
        ("maxCandidateNodesAbsolute", [1, 2, 100]),
    ):
        if random.random() < 0.5:
            given[key] = random.choice(choices)
    case["profile"]["actionArgs"] = {"preempt": given}
    for tier in case["profile"]["tiers"]:
        for listing in tier:
            if "predicates" in listing and random.random() < 0.8:
                listing["predicates"] = ["predicate", random.choice(["preemptable", "allocatable"])]
    for row in case["pods"]:
        if row[2] != "-" and random.random() < 0.8:
            options(row)["started"] = random.choice([0, 60, 3600])


def add_cdp(random: Random, case: dict) -> None:
    put(random, case, "cdp", ["preemptable", "reclaimable"])
    for row in case["pods"]:
        if row[2] == "-" or random.random() < 0.2:
            continue
        given = options(row)
        given["placed"] = random.choice([10, 59, 60, 61, 3600])
        for where in random.choice([["labels"], ["annotations"], ["labels", "annotations"], []]):
            given[where] = {**given.get(where, {}), COOLDOWN: random.choice(["60s", "1m", "5m", "2h", "600abc", ""])}
