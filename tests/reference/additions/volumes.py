"""Clusters with devices that pods claim, and with claims on volumes, in all their states, of drivers that nodes take few of."""

from __future__ import annotations

from random import Random

from tests.reference.generator import options

ZONE = "topology.kubernetes.io/zone"
HOST = "kubernetes.io/hostname"
CLASSES = {
    "local": {},
    "disk": {"provisioner": "d"},
    "zoned": {"provisioner": "d", "zones": ["a", "b"]},
    "now": {"mode": "Immediate"},
}

DRIVERS = ["gpu.example.com", "net.example.com"]


def add(random: Random, case: dict) -> None:
    case["storageClasses"] = CLASSES
    nodes = [row[0] for row in case["nodes"]]
    for row in case["nodes"]:
        if random.random() < 0.7:
            row[3]["labels"][ZONE] = random.choice(["a", "b"])
    case["volumes"], case["claims"] = {}, {}
    for number in range(random.randint(1, 6)):
        case["volumes"][f"v{number}"] = volume(random, nodes)
    for number in range(random.randint(1, 6)):
        case["claims"][f"c{number}"] = claim(random, case["volumes"], nodes)
    open_ones = [name for name, given in case["claims"].items() if "volume" not in given]
    for name, given in case["volumes"].items():
        if open_ones and random.random() < 0.2 and not any(each.get("volume") == name for each in case["claims"].values()):
            given |= {"claim": random.choice(open_ones), "phase": "Available"}
    if random.random() < 0.5:
        case["csiNodes"] = {name: {"d": random.randint(0, 2)} for name in nodes if random.random() < 0.8}
    for row in case["pods"]:
        if random.random() < 0.5:
            known = [*case["claims"], *(["gone"] if random.random() < 0.1 else [])]
            options(row)["pvc"] = random.sample(known, min(len(known), random.choice([1, 1, 2])))
        if random.random() < 0.05:
            options(row)["ephemeral"] = ["tmp"]
            owner = {"owner": row[0]} if random.random() < 0.8 else {}
            case["claims"][f"{row[0]}-tmp"] = {"class": "disk", **owner}


def volume(random: Random, nodes: list[str]) -> dict:
    found: dict = {"class": random.choice(["local", "local", "disk"]), "size": random.choice(["1Gi", "5Gi", "6Gi", "50Gi"])}
    if random.random() < 0.6:
        found["nodes"] = random.sample(nodes, random.randint(1, len(nodes)))
    if random.random() < 0.3:
        found["zone"] = random.choice(["a", "b", "a__b"])
    if random.random() < 0.5:
        found["driver"] = "d"
    if random.random() < 0.2:
        found["modes"] = ["ReadWriteOnce", "ReadWriteMany"]
    return found


def claim(random: Random, volumes: dict, nodes: list[str]) -> dict:
    found: dict = {"class": random.choice(["local", "local", "disk", "zoned", "now"])}
    if random.random() < 0.4:
        found["volume"] = random.choice([*volumes, *(["lost"] if random.random() < 0.1 else [])])
        if random.random() < 0.05:
            found["phase"] = "Lost"
    elif found["class"] in {"disk", "zoned"} and random.random() < 0.2:
        found["node"] = random.choice(nodes)
    if random.random() < 0.4:
        found["size"] = random.choice(["1Gi", "5Gi", "20Gi"])
    if random.random() < 0.2:
        found["modes"] = [random.choice(["ReadWriteMany", "ReadWriteOncePod"])]
    return found


def add_devices(random: Random, case: dict) -> bool:
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
