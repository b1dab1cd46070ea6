"""Trees of queues with a PodGroup in a queue that has children."""

from __future__ import annotations

from random import Random


def add(random: Random, case: dict) -> bool:
    """False: the queues of the case are no tree."""
    inner = [row[1]["parent"] for row in case["queues"] if row[1].get("parent")]
    if case["queues"][0][0] != "root" or not inner:
        return False
    for row in random.sample(case["podgroups"], random.randint(1, len(case["podgroups"]))):
        row[1] = random.choice([*inner, "root", row[1]])
    return True
