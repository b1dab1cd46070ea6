"""What a session held is freed when its cycle ends, without the garbage collector."""

import gc

import pytest

from pyroclast.api.keys import QUEUE_BUDGET
from pyroclast_scheduler import registry
from pyroclast_scheduler.model.jobs import Job
from pyroclast_scheduler.session.configuration import parse
from pyroclast_scheduler.session.session import Session
from tests.scenarios.runner import Cache, feed
from tests.unit.scheduler.deciding import decided

BUDGET = {"annotations": {QUEUE_BUDGET: '{"period": "month", "limits": {"cpu": "1h"}}'}}
ARGUMENTS = {"extender": "{extender.urlPrefix: http://127.0.0.1:1, extender.ignorable: true}"}


def full_cluster():
    """Two full nodes and an empty one; gangs that wait in vain, for evictions, or to be let in, and some that start."""
    cache = Cache()
    feed(
        cache,
        {
            "nodes": [["n0", 4, "8Gi"], ["n1", 4, "8Gi"], ["n2", 4, "8Gi", {"labels": {"rack": "a"}}]],
            "queues": [["q", {"weight": 1}], ["r", {"weight": 3, "capability": {"cpu": "6"}}], ["b", BUDGET]],
            "podgroups": [
                ["low", "q", 1, {"phase": "Running"}],
                ["high", "q", 2, {"phase": "Inqueue", "class": 10}],
                ["other", "r", 1, {"phase": "Inqueue"}],
                ["large", "r", 9, {"phase": "Pending", "minRes": {"cpu": "9"}}],
                ["small", "b", 1, {"phase": "Pending"}],
                ["twin", "q", 1, {"phase": "Inqueue"}],
                ["second-twin", "q", 1, {"phase": "Inqueue"}],
            ],
            "pods": [
                *([f"l{i}", "low", f"n{i // 4}", 1, "1Gi"] for i in range(8)),
                *([f"h{i}", "high", "-", 4, "1Gi"] for i in range(2)),
                ["o", "other", "-", 3, "1Gi"],
                *([f"g{i}", "large", "-", 1, "1Gi"] for i in range(9)),
                ["s", "small", "-", 1, "1Gi"],
                ["t", "twin", "-", 3, "1Gi"],
                ["u", "second-twin", "-", 3, "1Gi"],
            ],
        },
    )
    return cache


def parts_of_sessions():
    return sum(isinstance(each, Session | Job) for each in gc.get_objects())


@pytest.mark.parametrize("plugin", sorted(registry.plugins()))
@pytest.mark.parametrize("evicting", ["preempt, reclaim, shuffle", "gangpreempt, gangreclaim"])
def test_a_session_is_freed_at_the_end_of_its_cycle_without_garbage_collection(plugin, evicting):
    plugins = {name: registry.plugins()[name] for name in {"gang", "predicates", "priority", plugin}}
    entries = ", ".join(f"{{name: {name}, arguments: {ARGUMENTS.get(name, '{}')}}}" for name in plugins)
    allocating = "elect, allocate, reserve" if plugin == "reservation" else "allocate"
    text = f'actions: "enqueue, {allocating}, backfill, {evicting}"\ntiers: [{{plugins: [{entries}]}}]'
    configuration = parse(text, actions=registry.actions(), plugins=plugins)
    cache, memory = full_cluster(), {}
    gc.collect()
    gc.disable()
    try:
        before = parts_of_sessions()
        for _ in range(2):
            outcome, _ = decided(cache, configuration, plugins=plugins, memory=memory)
            assert outcome.seen
            assert outcome.measures.budgets.keys() == {"b"}
            assert parts_of_sessions() == before
    finally:
        gc.enable()
