"""Where no node is large enough for a pod, no action looks for pods that could go for it."""

import pytest

from pyroclast_scheduler.cache.cache import Cache
from pyroclast_scheduler.eviction.victims import Residents
from tests.scenarios import objects
from tests.unit.scheduler.deciding import committed, configured

TEXT = """
actions: "allocate, {action}"
tiers:
- plugins: [{{name: priority}}, {{name: gang, enablePreemptable: false}}, {{name: conformance}}]
- plugins: [{{name: predicates}}, {{name: proportion}}, {{name: nodeorder}}]
"""


@pytest.mark.parametrize("action", ["preempt", "reclaim"])
@pytest.mark.parametrize(("cpu", "want"), [(2, True), (3, False)])
def test_victims_are_sought_only_on_nodes_that_are_large_enough(action, cpu, want, monkeypatch):
    cache = Cache()
    cache.priority_changed(None, objects.priority_class(1000))
    for name in ("low", "high"):
        cache.queue_changed(None, objects.queue([name, {"weight": 9 if name == "high" else 1}]))
    for i in range(5):
        cache.node_changed(None, objects.node([f"n{i}", 2, "8Gi"]))
        cache.group_changed(None, objects.pod_group([f"runs{i}", "low", 1, {"phase": "Running"}]))
        cache.pod_changed(None, objects.pod([f"runs{i}-0", f"runs{i}", f"n{i}", 2, "1Gi"]))
    queue = "low" if action == "preempt" else "high"
    cache.group_changed(None, objects.pod_group(["waits", queue, 1, {"phase": "Inqueue", "class": 1000}]))
    cache.pod_changed(None, objects.pod(["waits-0", "waits", "-", cpu, "1Gi", {"prio": 1000}]))
    asked = []
    on = Residents.on
    monkeypatch.setattr(Residents, "on", lambda self, *given, **more: asked.append(given) or on(self, *given, **more))
    configuration = configured(TEXT.format(action=action))
    _, commits = committed(cache, configuration)
    assert bool(asked) is want
    assert any(commit.evictions for commit in commits) is want
