"""Random clusters with a network: hypernodes of two or three tiers, jobs with a topology, whole or in parts."""

from __future__ import annotations

from random import Random

GANG = ["jobOrder", "jobReady", "jobPipelined", "jobStarving", "subJobReady", "subJobPipelined", "subJobOrder"]
NETWORK = ["nodeOrder", "hyperNodeOrder", "hyperNodeGradient"]


def make(seed: int) -> dict:
    """The case of a seed."""
    random = Random(seed)
    tier = [{"gang": GANG}, {"predicates": ["predicate"]}]
    if random.random() < 0.9:
        tier.append({"network-topology-aware": NETWORK})
    if random.random() < 0.3:
        tier.append({"priority": ["jobOrder", "taskOrder", "subJobOrder"]})
    random.shuffle(tier)
    hyper_nodes, names = network(random)
    nodes = [[name, 4 * random.randint(1, 2), "8G", {"pods": 4}] for name in names]
    free = {row[0]: row[1] for row in nodes}
    groups, pods = [], []
    for number in range(random.randint(1, 3)):
        job(random, f"j{number}", hyper_nodes, free, groups, pods)
    return {
        "id": f"network-{seed}",
        "profile": {"actions": ["allocate"], "tiers": [tier]},
        "hypernodes": hyper_nodes,
        "nodes": nodes,
        "queues": [["q", {}]],
        "podgroups": groups,
        "pods": pods,
    }


def make_full(seed: int) -> dict:
    """The case of a seed in which gangs that matter more need the places of others."""
    random = Random(f"full {seed}")
    is_reclaim = random.random() < 0.5
    tier = [{"gang": GANG}, {"predicates": ["predicate"]}, {"priority": ["jobOrder", "taskOrder", "subJobOrder"]}]
    if random.random() < 0.9:
        tier.append({"network-topology-aware": NETWORK})
    if random.random() < 0.3:
        tier.append({"conformance": []})
    random.shuffle(tier)
    hyper_nodes, names = network(random)
    nodes = [[name, 4 * random.randint(1, 2), "32G", {"pods": 8}] for name in names]
    free = {row[0]: row[1] for row in nodes}
    groups, pods = [], []
    for number in range(random.randint(2, 5)):
        job(random, f"r{number}", hyper_nodes, free, groups, pods, running=0.9)
        groups[-1][3] |= {"class": random.choice([1, 2]), "phase": "Running"}
    for number in range(random.randint(1, 2)):
        job(random, f"w{number}", hyper_nodes, free, groups, pods, running=0)
        groups[-1][1] = "q2" if is_reclaim else "q"
        groups[-1][3]["class"] = random.choice([1, 5])
    action = "gangreclaim" if is_reclaim else "gangpreempt"
    return {
        "id": f"full-network-{seed}",
        "profile": {"actions": [action], "tiers": [tier]},
        "hypernodes": hyper_nodes,
        "nodes": nodes,
        "queues": [["q", {}], ["q2", {}]],
        "podgroups": groups,
        "pods": pods,
    }


def network(random: Random) -> tuple[dict, list[str]]:
    racks = [f"r{number}" for number in range(random.randint(1, 4))]
    found, names = {}, []
    for rack in racks:
        members = [f"{rack}{letter}" for letter in "abc"[: random.randint(1, 3)]]
        found[rack] = [1, members]
        names += members
    if random.random() < 0.7:
        cut = random.randint(1, len(racks))
        for name, members in (("s0", racks[:cut]), ("s1", racks[cut:])):
            if members:
                found[name] = [2, members]
    if random.random() < 0.1:
        names.append("alone")
    return found, names


def topology(random: Random) -> list:
    return random.choice([["soft"], ["hard", 1], ["hard", 2], ["hard", 3]])


def job(random: Random, name: str, hyper_nodes: dict, free: dict, groups: list, pods: list, running: float = 0.25) -> None:
    options: dict = {"phase": "Inqueue"}
    if random.random() < 0.7:
        options["topo"] = topology(random)
    splits = random.choice([[], [], ["spec"], ["spec", "inst"]])
    if splits:
        options["sub"] = [
            [split, *random.choice([["none", "none"], topology(random), topology(random)]), sizes(random)] for split in splits
        ]
    if random.random() < 0.3:
        options["class"] = random.choice([1, 5])
    if random.random() < 0.2:
        options["minRes"] = {"cpu": random.randint(1, 16)}
    size = random.randint(1, 6)
    cpu = random.choice([1, 2, 3, 4])
    groups.append([name, "q", random.randint(1, size), options])
    inside = sorted(random.choice(list(hyper_nodes.values()))[1])
    for number in range(size):
        given: dict = {}
        if splits and random.random() < 0.9:
            key = {"spec": "volcano.sh/task-spec", "inst": "volcano.sh/task-instance"}[random.choice(splits)]
            given["labels"] = {key: random.choice(["a", "b", "0", "1"])}
        if random.random() < 0.1:
            given["prio"] = random.choice([0, 5])
        where = "-"
        if random.random() < running:
            having = [each for each in inside if free.get(each, 0) >= cpu]
            if having:
                where = random.choice(having)
                free[where] -= cpu
        pods.append([f"{name}-{number}", name, where, cpu, f"{cpu}G", given])


def sizes(random: Random) -> dict:
    return {"size": random.randint(1, 3), "minSubGroups": random.randint(0, 2)}
