"""Clusters whose namespace has quotas, and trees of queues with a PodGroup in a queue that has children."""

from __future__ import annotations

from random import Random

from tests.reference.generator import put

NAMES = ["cpu", "memory", "requests.cpu", "requests.memory", "x/gpu", "pods"]


def add_quotas(random: Random, case: dict) -> None:
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


def add_inner(random: Random, case: dict) -> bool:
    """False: the queues of the case are no tree."""
    inner = [row[1]["parent"] for row in case["queues"] if row[1].get("parent")]
    if case["queues"][0][0] != "root" or not inner:
        return False
    for row in random.sample(case["podgroups"], random.randint(1, len(case["podgroups"]))):
        row[1] = random.choice([*inner, "root", row[1]])
    return True


def amount(random: Random, name: str, most: int) -> int | str:
    number = random.randint(0, most)
    return f"{number}G" if name.endswith("memory") else number
