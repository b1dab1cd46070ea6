"""Clusters with devices that pods claim."""

from __future__ import annotations

from random import Random

from .parts import options

DRIVERS = ["gpu.example.com", "net.example.com"]


def add(random: Random, case: dict) -> bool:
    """False: somebody is evicted, and when a claim is free then is not the scheduler's to say."""
    if {"preempt", "reclaim", "gangpreempt", "gangreclaim"} & set(case["profile"]["actions"]):
        return False
    case["deviceClasses"] = {f"c{i}": f'device.driver == "{driver}"' for i, driver in enumerate(DRIVERS)}
    having = [row[0] for row in case["nodes"] if random.random() < 0.8]
    case["devices"] = {name: [f"d{i} of {random.choice(DRIVERS)}" for i in range(random.randint(1, 4))] for name in having}
    claims = case["deviceClaims"] = {}
    free = {(node, each.split()[0]): each.split()[-1] for node, devices in case["devices"].items() for each in devices}
    for number in range(random.randint(1, 8)):
        claims[f"k{number}"] = {"class": random.choice(["c0", "c0", "c1"]), "count": random.choice([1, 1, 2])}
        if free and random.random() < 0.25:
            node, device = random.choice(list(free))
            driver = free.pop((node, device))
            claims[f"k{number}"] = {"class": f"c{DRIVERS.index(driver)}", "has": [node, driver, device]}
    for row in case["pods"]:
        if row[2] == "-" and random.random() < 0.6:
            options(row)["claim"] = random.choice([*claims, *(["gone"] if random.random() < 0.1 else [])])
    return True
