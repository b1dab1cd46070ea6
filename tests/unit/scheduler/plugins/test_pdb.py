"""Plugin pdb beside action shuffle."""

from types import SimpleNamespace

import pytest

from pyroclast_scheduler import registry
from pyroclast_scheduler.cache.cache import Cache
from pyroclast_scheduler.session.extension_points import Extensions
from tests.scenarios import objects
from tests.scenarios.runner import feed
from tests.unit.scheduler.deciding import committed, configured, evicted


@pytest.mark.parametrize(("names", "victims"), [(["pdb"], []), (["pdb", "mover"], ["p"])])
def test_plugin_pdb_adds_no_victims_to_action_shuffle(names, victims):
    cache = Cache()
    pods = [["p", "j", "n", 1, "1Gi", {"labels": {"app": "x"}}]]
    feed(cache, {"nodes": [["n", 4, "8Gi"]], "queues": [["q", {}]], "podgroups": [["j", "q", 1]], "pods": pods})
    cache.object_changed(None, objects.disruption_budget({"selector": {"app": "x"}, "allowed": 1}))
    mover = SimpleNamespace(open=lambda _session: Extensions(victim_tasks=lambda candidates: candidates))
    plugins = dict(registry.plugins()) | {"mover": lambda _arguments: mover}
    text = ", ".join(f"{{name: {name}}}" for name in names)
    configuration = configured(f"actions: shuffle\ntiers: [{{plugins: [{text}]}}]", plugins)
    _, commits = committed(cache, configuration, plugins=plugins)
    assert evicted(commits) == victims
