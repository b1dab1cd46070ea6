"""Clusters in which nodes are kept for somebody, or should be, in whatever state that is."""

from __future__ import annotations

import json
from random import Random

from tests.reference.generator import options, put
from tests.scenarios.objects import NOW

PREFIX = "scheduling.volcano.sh/"
ACTIONS = [
    ["enqueue", "elect", "allocate", "backfill", "reserve"],
    ["enqueue", "elect", "allocate", "backfill", "reserve"],
    ["elect", "allocate", "reserve"],
    ["elect", "allocate", "preempt", "reserve"],
    ["elect", "reclaim", "allocate", "reserve"],
    ["elect", "gangpreempt", "allocate", "reserve"],
]


def add(random: Random, case: dict) -> None:
    case["profile"]["actions"] = random.choice(ACTIONS)
    arguments: dict = {}
    for key, choices in (
        ("nodeOrder", ["capacity", "idle"]),
        ("locksPerCycle", [1, 2, "all"]),
        ("preemptive", [True, True, False]),
        ("targetScope", ["cluster", "queue"]),
        ("maxLockedShare", [0.25, 0.5, 1.0]),
        ("minWait", ["59m", "1h", "2h"]),
        ("fill", [False, True]),
        ("assumeDuration", ["5m", "1h"]),
    ):
        if random.random() < 0.35:
            arguments[key] = random.choice(choices)
    put(random, case, "reservation", ["predicate", "targetJob", "reservedNodes", "jobEnqueued"], arguments)
    names = [row[0] for row in case["nodes"]]
    for row in case["podgroups"]:
        told = {}
        if row[3]["phase"] == "Running" and random.random() < 0.3:
            row[3]["phase"] = "Inqueue"  # it has lost some of its pods
        if random.random() < 0.6:
            told["running-estimate"] = random.choice(["1m", "10m", "30m", "2h"])
        if random.random() < 0.15:
            told["reservation-target"] = random.choice(["true", "true", "false"])
        if random.random() < 0.3:
            told["reservation"] = state(random, row[1] if arguments.get("targetScope") == "queue" else "", names)
        row[3]["annotations"] = {**row[3].get("annotations", {}), **{PREFIX + key: text for key, text in told.items()}}
    for row in case["pods"]:
        if row[2] != "-" and random.random() < 0.9:
            options(row)["started"] = random.choice([0, 30, 59, 300, 1799, 5000])


def state(random: Random, scope: str, names: list[str]) -> str:
    known = random.sample([*names, *(["gone"] if random.random() < 0.2 else [])], random.randint(0, len(names)))
    promise = random.choice([None, None, NOW - 5, NOW + 60, NOW + 900, NOW + 7200])
    told = {
        "scheduler": "volcano" if random.random() < 0.9 else "another",
        "scope": scope,
        "since": NOW - 100,
        "locks": [{"node": name, "since": NOW - 50} for name in known],
        "promise": promise,
        "fill_until": None if promise is None else promise - random.choice([0, 300]),
    }
    return json.dumps(told)
