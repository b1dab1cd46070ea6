"""Every value of the chart that a page names is in its values.yaml."""

import re

import pytest
import yaml

from tests.unit.docs.pages import PAGES, ROOT, blocks

VALUES = yaml.safe_load((ROOT / "charts" / "pyroclast" / "values.yaml").read_text())
NAMED = {page: sorted(set(re.findall(r"\b(custom|basic)\.([a-z][a-z_]+[a-z])\b", text))) for page, text in PAGES.items()}


def unknown(values, known, path=""):
    """The keys of a values file that the chart does not have."""
    found = []
    for key, value in values.items():
        if key not in known:
            found.append(path + key)
        elif isinstance(value, dict) and isinstance(known[key], dict) and known[key]:
            found += unknown(value, known[key], f"{path}{key}.")
    return found


@pytest.mark.parametrize("page", [page for page, named in NAMED.items() if named])
def test_a_value_that_a_page_names_exists(page):
    assert [f"{group}.{name}" for group, name in NAMED[page] if name not in VALUES[group]] == []


@pytest.mark.parametrize("page", PAGES)
def test_a_values_file_that_a_page_shows_has_known_keys(page):
    files = [yaml.safe_load(block) for block in blocks(PAGES[page], "yaml") if re.match(r"custom:|basic:|webhook:", block)]
    assert [key for values in files for key in unknown(values, VALUES)] == []
