"""Trees of queues with a PodGroup in a queue that has children, or a parent that does not exist."""

from __future__ import annotations

from random import Random


def add(random: Random, case: dict) -> bool:
    """False: the queues of the case are no tree."""
    below = [row for row in case["queues"] if row[1].get("parent")]
    if case["queues"][0][0] != "root" or not below:
        return False
    if random.random() < 0.3:
        random.choice(below)[1]["parent"] = "gone"
    elif random.random() < 0.7:
        random.choice(case["podgroups"])[1] = random.choice([*case["queues"], *case["queues"][:1]])[0]
    return True
