"""Clusters whose namespace has quotas."""

from __future__ import annotations

from random import Random

from .parts import put

NAMES = ["cpu", "memory", "requests.cpu", "requests.memory", "x/gpu", "pods"]


def add(random: Random, case: dict) -> None:
    put(random, case, "resourcequota", ["jobEnqueued"])
    placed = {row[1] for row in case["pods"] if row[2] != "-"}
    for row in case["podgroups"]:
        minimum = row[3].get("minRes")
        if minimum and random.random() < 0.6:
            minimum |= {f"requests.{name}": minimum[name] for name in ("cpu", "memory") if name in minimum}
        if row[0] not in placed:
            row[3]["phase"] = "Pending"
    case["quotas"] = []
    for number in range(random.randint(0, 2)):
        named = random.sample(NAMES, random.randint(1, 3))
        hard = {name: amount(random, name, 12) for name in named}
        used = {name: amount(random, name, 4) for name in named if random.random() < 0.7}
        case["quotas"].append({"name": f"quota-{number}", "hard": hard, "used": used})


def amount(random: Random, name: str, most: int) -> int | str:
    number = random.randint(0, most)
    return f"{number}G" if name.endswith("memory") else number
