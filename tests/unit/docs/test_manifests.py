"""Every manifest that a page shows passes the rules of the webhooks, and the scheduler can use every configuration."""

import pytest
import yaml

from pyroclast_cli.views.manifests import check_manifests
from pyroclast_scheduler import registry
from pyroclast_scheduler.session import configuration
from tests.unit.docs.pages import PAGES, blocks


def documents(text, *keys):
    """The documents of the page's YAML blocks that have these keys."""
    found = [each for block in blocks(text, "yaml") for each in yaml.safe_load_all(block)]
    return [each for each in found if isinstance(each, dict) and set(keys) <= set(each)]


def manifests(text):
    return documents(text, "apiVersion", "kind")


CONFIGURATIONS = {page: found for page, text in PAGES.items() if (found := documents(text, "actions", "tiers"))}
FOUND = {page: found for page, text in PAGES.items() if (found := manifests(text))}


@pytest.mark.parametrize("page", FOUND)
def test_the_manifests_of_a_page_are_accepted(page):
    results = check_manifests(FOUND[page], "default")
    assert [(result.name, fault) for result in results for fault in result.faults] == []


def test_the_tutorials_and_how_to_guides_show_manifests():
    assert len([page for page in FOUND if page.startswith(("docs/tutorials/", "docs/how-to/"))]) > 10


@pytest.mark.parametrize("page", CONFIGURATIONS)
def test_the_scheduler_uses_the_configurations_of_a_page_without_warnings(page):
    for found in CONFIGURATIONS[page]:
        parsed = configuration.parse(yaml.safe_dump(found), actions=registry.actions(), plugins=registry.plugins())
        assert parsed.warnings == ()
