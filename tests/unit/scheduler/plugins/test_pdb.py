"""Plugin pdb beside action shuffle."""

from __future__ import annotations

from pyroclast_scheduler import registry
from pyroclast_scheduler.session.arguments import Arguments
from pyroclast_scheduler.session.configuration import PluginEntry
from tests.scenarios.plugin_tables import opened


def test_plugin_pdb_adds_no_victims_to_action_shuffle():
    tables = {"nodes": [["n", 4, "8Gi"]], "pods": [["p", "j", "n", 1, "1Gi", {"labels": {"app": "x"}}]]}
    commits: list = []
    session = opened(tables, PluginEntry("pdb"), commit=commits.append)
    registry.actions()["shuffle"](session, Arguments())
    assert commits == []
