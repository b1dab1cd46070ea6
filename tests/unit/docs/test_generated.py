"""The pages of the reference that are made from code are current."""

import pytest

from tests.unit.docs.generated import PAGES, REFERENCE


@pytest.mark.parametrize("name", PAGES)
def test_generated_reference_page_is_current(name):
    assert (REFERENCE / name).read_text() == PAGES[name](), "stale; `python -m tests.unit.docs.generated` writes it anew"
