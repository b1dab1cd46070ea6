"""Every manifest that a page shows passes the schemas and the rules of the webhooks."""

import pytest
import yaml

from pyroclast_cli.views.manifests import check_manifests
from tests.unit.docs.pages import PAGES, blocks


def manifests(text):
    """The documents of the page's YAML blocks that are objects of an API."""
    documents = [each for block in blocks(text, "yaml") for each in yaml.safe_load_all(block)]
    return [each for each in documents if isinstance(each, dict) and {"apiVersion", "kind"} <= set(each)]


FOUND = {page: found for page, text in PAGES.items() if (found := manifests(text))}


@pytest.mark.parametrize("page", FOUND)
def test_the_manifests_of_a_page_are_accepted(page):
    results = check_manifests(FOUND[page], "default")
    assert [(result.name, fault) for result in results for fault in result.faults] == []


def test_the_tutorials_and_how_to_guides_show_manifests():
    assert len([page for page in FOUND if page.startswith(("docs/tutorials/", "docs/how-to/"))]) > 0
