"""What other members of a ring of schedulers have placed counts against a queue's capability."""

from __future__ import annotations

import pytest

from pyroclast_scheduler.cache.cache import Cache
from tests.scenarios.runner import feed
from tests.unit.scheduler.deciding import configured, decided

CONFIGURATION = """
actions: "enqueue, allocate, backfill"
tiers:
- plugins: [{name: priority}, {name: gang}, {name: conformance}]
- plugins: [{name: drf}, {name: predicates}, {name: %s}, {name: nodeorder}]
"""
CAPABILITY = {"capability": {"cpu": 8}}


def placed(cache: Cache, plugin: str, elsewhere: dict[str, dict[str, int]]) -> int:
    """How many pods a session places."""
    return len(decided(cache, configured(CONFIGURATION % plugin), elsewhere=elsewhere)[1])


def cluster(queues: list, *, phase: str = "Inqueue") -> Cache:
    cache = Cache()
    feed(cache, {"nodes": [["n", 32, "64Gi"]], "queues": [["root", {}], *queues]})
    feed(cache, {"podgroups": [["job", "q", 1, {"phase": phase, "minRes": {"cpu": 1}}]]})
    if phase == "Inqueue":
        feed(cache, {"pods": [[f"job-{number}", "job", "-", 1, 0] for number in range(10)]})
    return cache


@pytest.mark.parametrize("plugin", ["proportion", "capacity"])
@pytest.mark.parametrize(
    ("elsewhere", "want"),
    [
        ({}, 8),
        ({"q": {"cpu": 6000, "pods": 6}}, 2),
        ({"q": {"cpu": 8000}}, 0),
        ({"q": {"cpu": 99000}}, 0),
        ({"r": {"cpu": 8000}}, 8),
    ],
)
def test_pods_placed_by_other_schedulers_count_against_the_queue_capability(plugin, elsewhere, want):
    assert placed(cluster([["q", CAPABILITY], ["r", {}]]), plugin, elsewhere) == want


@pytest.mark.parametrize(
    ("elsewhere", "want"), [({}, 8), ({"sister": {"cpu": 5000}}, 3), ({"q": {"cpu": 1000}, "sister": {"cpu": 5000}}, 2)]
)
def test_pods_placed_by_other_schedulers_count_against_the_parent_queue_capability(elsewhere, want):
    cache = cluster([["parent", CAPABILITY], ["q", {"parent": "parent"}], ["sister", {"parent": "parent"}]])
    assert placed(cache, "capacity, enableHierarchy: true", elsewhere) == want


@pytest.mark.parametrize("plugin", ["proportion", "capacity"])
@pytest.mark.parametrize(("taken", "is_let_in"), [(7000, True), (8000, False)])
def test_a_gang_is_admitted_only_while_the_capability_shared_by_all_schedulers_allows(plugin, taken, is_let_in):
    cache = cluster([["q", CAPABILITY]], phase="Pending")
    outcome, _ = decided(cache, configured(CONFIGURATION % plugin), elsewhere={"q": {"cpu": taken}})
    assert (str(outcome.statuses["t/job"].phase) == "Inqueue") is is_let_in


def test_resources_freed_by_another_scheduler_trigger_retries_only_below_a_limited_queue():
    cache = cluster([["parent", CAPABILITY], ["q", {"parent": "parent"}], ["sister", {"parent": "parent"}], ["free", {}]])
    cache.snapshot()
    cache.queue_freed_elsewhere("free")
    assert not cache.retries.left, "no queue above it is limited"
    cache.queue_freed_elsewhere("sister")
    assert cache.retries.left
