"""Clusters whose nodes are measured, some of them too long ago."""

from __future__ import annotations

from random import Random

from tests.reference.generator import options, put


def add_rescheduling(random: Random, case: dict) -> None:
    """Pods leave nodes that are used too much, in action shuffle."""
    case["profile"]["actions"] = ["shuffle"]
    params = {
        key: {name: random.choice([20, 50, 70, 100]) for name in ("cpu", "memory") if random.random() < 0.8}
        for key in ("thresholds", "targetThresholds")
    }
    put(random, case, "rescheduling", ["victim"], {"strategies": [{"name": "lowNodeUtilization", "params": params}]})
    case["since"] = {"rescheduling.last": random.choice([299, 300, 301, 3600])}
    case["usage"] = {
        row[0]: [random.choice([0, 10, 30, 55, 80, 95]), random.choice([0, 10, 40, 60, 90]), 0]
        for row in case["nodes"]
        if random.random() < 0.9
    }


def add(random: Random, case: dict) -> None:
    arguments: dict = {}
    for key, choices in (
        ("usage.weight", [0, 1, 10]),
        ("cpu.weight", [0, 2, 3]),
        ("memory.weight", [0, 2, 8]),
        ("thresholds", [{"cpu": 50}, {"mem": 30}, {"cpu": 90, "mem": 60}]),
        ("estimator.request_ratio", [0.25, 0.5, 1]),
        ("estimator.risk_threshold", [0, 0.25, 0.5]),
        ("estimator.risk_factor", [1, 1.5, 3]),
    ):
        if random.random() < 0.4:
            arguments[key] = random.choice(choices)
    put(random, case, "usage", random.choice([["predicate", "nodeOrder"], ["nodeOrder"], ["predicate"]]), arguments)
    case["usage"] = {
        row[0]: [random.choice([0, 30, 50, 80, 81, 95]), random.choice([0, 10, 60, 79, 90]), random.choice([0, 300, 301])]
        for row in case["nodes"]
        if random.random() < 0.9
    }
    for row in case["pods"]:
        if row[2] != "-" and random.random() < 0.8:
            options(row)["started"] = random.choice([0, 29, 31, 3600])
