"""Clusters whose nodes tell of their NUMA nodes, with pods that have CPUs of their own."""

from __future__ import annotations

from random import Random

from .parts import options, put

POLICIES = ["best-effort", "restricted", "single-numa-node"]


def add(random: Random, case: dict) -> None:
    put(random, case, "numa-aware", ["predicate", "nodeOrder"], {"weight": random.choice([0, 1, 1, 10])})
    favourite = random.choice(POLICIES)
    case["numa"] = {row[0]: node(random, favourite) for row in case["nodes"] if random.random() < 0.9}
    for row in case["pods"]:
        if row[2] != "-" or not row[3] or str(row[4]).startswith("0") or not row[4] or random.random() < 0.2:
            continue
        given = options(row)
        if "x/gpu" in given:
            continue
        given["guaranteed"] = True
        if random.random() < 0.1:
            row[3] = random.choice(["500m", "1500m"])
        if random.random() < 0.7:
            told = {"volcano.sh/numa-topology-policy": random.choice([favourite, favourite, "none", *POLICIES])}
            given["annotations"] = {**given.get("annotations", {}), **told}


def node(random: Random, favourite: str) -> dict:
    total = {numa: random.randint(1, 4) for numa in range(random.randint(1, 3))}
    found: dict = {"total": total, "free": {numa: random.randint(0, size) for numa, size in total.items()}}
    if random.random() < 0.7:
        found["free"] = total
    found["policy"] = random.choice([favourite, favourite, favourite, *POLICIES, "", "none"])
    if random.random() < 0.1:
        found["manager"] = "none"
    if random.random() < 0.2:
        found["reserved"] = str(random.randint(0, 2))
    return found
