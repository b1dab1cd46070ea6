"""Clusters with jobs whose roles want to be together, or apart."""

from __future__ import annotations

from random import Random

from tests.reference.generator import options, put

PREFIX = "volcano.sh/task-topology-"


def add(random: Random, case: dict) -> None:
    arguments = {"task-topology.weight": random.choice([0, 1, 2, 10])} if random.random() < 0.7 else {}
    put(random, case, "task-topology", random.choice([["taskOrder", "nodeOrder"], ["nodeOrder"], ["taskOrder"]]), arguments)
    for row in case["podgroups"]:
        pods = [pod for pod in case["pods"] if pod[1] == row[0]]
        for pod in pods:
            options(pod).setdefault("role", random.choice("abc"))
        roles = sorted({options(pod)["role"] for pod in pods})
        told = {}
        for key in ("affinity", "anti-affinity"):
            if random.random() < 0.6:
                told[PREFIX + key] = ";".join(group(random, roles) for _ in range(random.randint(1, 2)))
        if random.random() < 0.4:
            told[PREFIX + "task-order"] = group(random, roles)
        row[3]["annotations"] = {**row[3].get("annotations", {}), **told}


def group(random: Random, roles: list[str]) -> str:
    chosen = random.sample(roles, random.randint(1, len(roles)))
    if random.random() < 0.05:
        chosen.append(random.choice(["gone", chosen[0]]))
    return ",".join(chosen)
