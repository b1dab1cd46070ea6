"""The tests that the page of robustness names exist."""

import re

import pytest

from tests.unit.docs.pages import PAGES, ROOT

PAGE = PAGES["docs/explanation/robustness.md"]
TESTS = ROOT / "tests"
DEFINITION = re.compile(r"^ *(?:async )?def test_(\w+)", re.MULTILINE)
FUNCTIONS = {name for path in TESTS.rglob("test_*.py") for name in DEFINITION.findall(path.read_text())}
FILE = re.compile(r"`((?:\w+/)+test_\w+\.py)`")
FUNCTION = re.compile(r"`([a-z]+(?:_[a-z]+){2,})`")


@pytest.mark.parametrize("name", sorted(set(FILE.findall(PAGE))))
def test_robustness_page_names_only_existing_test_files(name):
    assert (TESTS / "unit" / name).exists() or (TESTS / name).exists()


@pytest.mark.parametrize("name", sorted(set(FUNCTION.findall(PAGE))))
def test_robustness_page_names_only_existing_test_functions(name):
    assert name in FUNCTIONS
