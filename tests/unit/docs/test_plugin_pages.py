"""The pages of plugins and actions are true: every name has one, every configuration works, every argument is named."""

from pathlib import Path

import pytest
import yaml

from pyroclast_scheduler import registry
from pyroclast_scheduler.cache.cache import Cache
from pyroclast_scheduler.session import configuration
from pyroclast_scheduler.session import extension_points as points
from pyroclast_scheduler.session.arguments import Arguments
from tests.scenarios.runner import feed
from tests.unit.docs.pages import blocks
from tests.unit.scheduler.deciding import decided

PAGES = Path(__file__).parents[3] / "docs" / "plugins"
ACTIONS, PLUGINS = registry.actions(), registry.plugins()
TEXTS = {path.stem: path.read_text() for path in sorted(PAGES.glob("*.md"))}
CLUSTER = {
    "nodes": [["n", 4, "8Gi"]],
    "queues": [["root", {}], ["q", {}]],
    "podgroups": [["j", "q", 2, {"phase": "Pending", "minRes": {"cpu": 2, "memory": "2Gi"}}]],
    "pods": [["p1", "j", "-", 1, "1Gi"], ["p2", "j", "-", 1, "1Gi"]],
}


def parsed(block):
    return configuration.parse(yaml.safe_dump(block), actions=ACTIONS, plugins=PLUGINS)


def whole(block):
    """A configuration, also around what a page shows of one: entries of plugins. None for other blocks."""
    if isinstance(block, dict):
        return block if "tiers" in block else None
    names = [entry.get("name") for entry in block]
    others = [{"name": name} for name in ("gang", "predicates") if name not in names]
    return {"actions": "enqueue, allocate, backfill", "tiers": [{"plugins": [*block, *others]}]}


def configurations(page):
    return [parsed(found) for found in map(whole, map(yaml.safe_load, blocks(TEXTS[page], "yaml"))) if found is not None]


def entries(name):
    return [entry for found in configurations(name) for tier in found.tiers for entry in tier if entry.name == name]


ALL = {f"{page}-{number}": found for page in TEXTS for number, found in enumerate(configurations(page))}


@pytest.mark.parametrize("name", PLUGINS)
def test_a_plugin_has_a_page_that_the_index_links_to(name):
    assert name in TEXTS[name].splitlines()[0].lower()
    assert f"[{name}]({name}.md)" in TEXTS["README"]


@pytest.mark.parametrize("name", ACTIONS)
def test_an_action_stands_on_the_page_of_actions(name):
    assert f"`{name}`" in TEXTS["actions"]


@pytest.mark.parametrize("name", PLUGINS)
def test_plugin_page_shows_a_configuration_of_the_plugin(name):
    assert entries(name)


@pytest.mark.parametrize("name", PLUGINS)
def test_plugin_page_has_the_section_what_a_user_sees(name):
    assert "## What a user sees" in TEXTS[name]


@pytest.mark.parametrize("found", ALL.values(), ids=ALL.keys())
def test_a_configuration_is_taken_without_warnings_and_places_a_gang(found):
    cache = Cache()
    feed(cache, CLUSTER)
    outcome, placed = decided(cache, found)
    assert found.warnings == ()
    assert outcome.warnings == []
    assert placed == {"t-p1": "n", "t-p2": "n"}


@pytest.mark.parametrize("name", PLUGINS)
def test_every_plugin_argument_is_named_on_its_page(name):
    known, given = set(), set()
    for values in ({}, *(entry.arguments for entry in entries(name))):
        given |= set(values)
        arguments = Arguments(values)
        PLUGINS[name](arguments)
        known |= arguments.known
    assert {key for key in known if f"`{key}`" not in TEXTS[name]} <= given


@pytest.mark.parametrize("flag", sorted(points.FLAGS))
def test_every_plugin_flag_is_named_in_the_index(flag):
    assert f"`{flag}`" in TEXTS["README"]
