"""Clusters with a service that takes part in decisions, and does not always answer."""

from __future__ import annotations

from random import Random

from .parts import put

VERBS = {
    "predicateVerb": "predicate",
    "prioritizeVerb": "prioritize",
    "preemptableVerb": "victims",
    "reclaimableVerb": "victims",
    "queueOverusedVerb": "overused",
    "jobEnqueueableVerb": "enqueueable",
    "jobReadyVerb": "ready",
    "allocateFuncVerb": "allocate",
}
FLAGS = ["predicate", "nodeOrder", "preemptable", "reclaimable", "overused", "jobEnqueued", "jobReady"]


def add(random: Random, case: dict) -> None:
    arguments: dict = {f"extender.{key}": verb for key, verb in VERBS.items()} | {"extender.urlPrefix": "http://extender"}
    if random.random() < 0.5:
        arguments["extender.ignorable"] = random.random() < 0.5
    if random.random() < 0.2:
        arguments["extender.managedResources"] = ["x/gpu"]
    put(random, case, "extender", random.sample(FLAGS, random.randint(1, len(FLAGS))), arguments)
    if "enqueue" in case["profile"]["actions"]:
        ask_to_enter(random, case)
    names = {key: [row[0] for row in case[key]] for key in ("nodes", "queues", "podgroups", "pods")}
    case["extender"] = {
        "refuse": {name: random.choice([1, 2, 2, 3]) for name in some(random, names["nodes"], 0.3)},
        "scores": {name: random.randint(0, 500) for name in some(random, names["nodes"], 0.7)},
        "stay": some(random, names["pods"], 0.3),
        "overused": some(random, names["queues"], 0.1),
        "votes": {name: random.choice([-1, 0, 1]) for name in some(random, names["podgroups"], 0.5)},
        "unready": some(random, names["podgroups"], 0.1),
        "objects": some(random, names["pods"], 0.2),
        "absent": some(random, sorted(set(VERBS.values())), 0.08),
    }


def ask_to_enter(random: Random, case: dict) -> None:
    """Gangs without places wait at the door, with a minimum for which somebody is asked."""
    placed = {row[1] for row in case["pods"] if row[2] != "-"}
    for row in case["podgroups"]:
        if row[0] not in placed and random.random() < 0.8:
            row[3] |= {"phase": "Pending", "minRes": row[3].get("minRes") or {"cpu": random.randint(0, 3)}}


def some(random: Random, names: list[str], part: float) -> list[str]:
    return [name for name in names if random.random() < part]
