"""Gangs that fit although not in the order of their pods: found as often as by brute force, and by the rules of all plugins."""

from __future__ import annotations

from functools import cache
from random import Random
from typing import Any

import numpy as np
import pytest

from pyroclast_scheduler.cache.cache import Cache
from pyroclast_scheduler.placement.packing import Members, packed
from tests.counts import ONE_IN
from tests.scenarios.runner import feed
from tests.unit.scheduler.deciding import decided, one_tier

SCORES = {name: one_tier(["priority", "gang", "predicates", name], "allocate") for name in ("nodeorder", "binpack")}
Sizes = tuple[tuple[int, ...], ...]


def random_case(seed: int) -> tuple[Sizes, Sizes]:
    """Free amounts of up to five nodes, and the requests of a gang with two to four kinds of pods: cpu, and memory in Gi."""
    random = Random(seed)
    nodes = tuple((random.randint(4, 16), random.randint(4, 16)) for _ in range(random.randint(2, 5)))
    kinds = [(random.randint(1, 10), random.randint(1, 10)) for _ in range(random.randint(2, 4))]
    return nodes, tuple(kind for kind in kinds for _ in range(random.randint(1, 4)))


@cache
def fits(nodes: Sizes, pods: Sizes) -> bool:
    """Whether all pods fit, by trying each pod on each node."""
    if not pods:
        return True
    (cpu, memory), rest = pods[0], pods[1:]
    return any(
        has >= cpu and room >= memory and fits(tuple(sorted((*nodes[:at], (has - cpu, room - memory), *nodes[at + 1 :]))), rest)
        for at, (has, room) in enumerate(nodes)
    )


def world(nodes: list[list[Any]], pods: list[list[Any]], minimum: int | None = None, **group: Any) -> Cache:
    cache = Cache()
    named = [[*row, {}][:4] for row in nodes]
    labelled = [[*row[:3], {"labels": {"kubernetes.io/hostname": row[0]}, **row[3]}] for row in named]
    least = sum(row[1] == "g" for row in pods) if minimum is None else minimum
    groups = [["g", "q", least, {"phase": "Inqueue", **group}]]
    feed(cache, {"nodes": labelled, "queues": [["q", {}]], "podgroups": groups, "pods": pods})
    return cache


def gang(*sizes: tuple[int, ...]) -> list[list[Any]]:
    return [[f"g-{number}", "g", "-", cpu, f"{memory}Gi", {}] for number, (cpu, memory) in enumerate(sizes)]


FEASIBLE = [case for case in map(random_case, range(1200 // ONE_IN)) if fits(tuple(sorted(case[0])), tuple(sorted(case[1])))]


@pytest.mark.parametrize("score", SCORES)
def test_nearly_all_feasible_gangs_are_placed(score: str) -> None:
    """One after another, each pod on its best node, 80 % were found with nodeorder, and 87 % with binpack."""
    found = 0
    for nodes, pods in FEASIBLE:
        cache = world([[f"n{i}", cpu, f"{memory}Gi"] for i, (cpu, memory) in enumerate(nodes)], gang(*pods))
        found += len(decided(cache, SCORES[score])[1]) == len(pods)
    assert found >= 0.99 * len(FEASIBLE), f"{found} of {len(FEASIBLE)}"


def test_heuristics_alone_pack_a_large_gang() -> None:
    """A thousand nodes and a gang of 3,200 pods of eight kinds, which fills seven tenths of them."""
    requests = np.array([[kind, 9 - kind] for kind in range(1, 9)], dtype=np.int64)
    free = np.full((2, 1000), 20, dtype=np.int64)
    copies = (free.T[None] // requests[:, None, :]).min(axis=2)
    packing = packed(Members(requests, np.full(8, 400, dtype=np.int64), copies, free), 0)
    assert packing is not None
    used = np.zeros((1000, 2), dtype=np.int64)
    for kind, rows in packing:
        np.add.at(used, rows, requests[kind])
    assert sum(len(rows) for _, rows in packing) == 3200
    assert (used <= 20).all()


CASES: dict[str, tuple[list[list[Any]], list[list[Any]], dict[str, Any], int]] = {
    "a launcher first": (
        [["n0", 8, "64Gi"], ["n1", 8, "64Gi"], ["n2", 8, "64Gi"], ["n3", 2, "64Gi"]],
        gang((2, 1), (8, 1), (8, 1), (8, 1)),
        {},
        4,
    ),
    "beside other pods": (
        [["n0", 8, "64Gi"], ["n1", 8, "64Gi"]],
        [["other", "other", "n0", 2, "1Gi", {}], *gang((2, 1), (8, 1), (4, 1))],
        {},
        3,
    ),
    "the minimum of an elastic gang": (
        [["n0", 8, "64Gi"], ["n1", 8, "64Gi"]],
        gang((8, 1), (8, 1), (3, 1), (3, 1), (3, 1), (3, 1)),
        {"minimum": 4},
        4,
    ),
    "roles with minimums": (
        [["n0", 8, "64Gi"], ["n1", 8, "64Gi"]],
        [[*row[:5], {"role": role}] for row, role in zip(gang((2, 1), (2, 1), (8, 1), (8, 1)), "aabb", strict=True)],
        {"minimum": 3, "roles": {"a": 2, "b": 1}},
        3,
    ),
    "a pod that may be beside no other of its label": (
        [["n0", 8, "64Gi"], ["n1", 2, "64Gi"]],
        [
            ["g-0", "g", "-", 2, "1Gi", {"labels": {"app": "x"}}],
            ["g-1", "g", "-", 4, "1Gi", {"labels": {"app": "y"}, "anti": {"key": "kubernetes.io/hostname", "app": "x"}}],
        ],
        {},
        2,
    ),
    "no way": ([["n0", 8, "64Gi"], ["n1", 8, "64Gi"]], gang((5, 1), (5, 1), (4, 1), (1, 1)), {}, 0),
}


@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
def test_a_gang_is_placed_in_another_way_where_its_order_does_not_fit(case: tuple[Any, Any, dict[str, Any], int]) -> None:
    nodes, pods, options, want = case
    outcome, bound = decided(world(nodes, pods, **options), SCORES["nodeorder"])
    assert len(bound) == want
    if not want:
        said = " ".join(each.message for status in outcome.statuses.values() for each in status.conditions)
        assert "2 Schedulable, 2 Unschedulable" in said, "as the usual order left it"
