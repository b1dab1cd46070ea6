"""The reference of the web page has each page, light and dark."""

import pytest

from pyroclast_board.serving.pages import ROUTES
from tests.unit.docs.pages import DOCS, links

FOLDER = DOCS / "reference" / "web-page"
SHOWN = {file for file, _ in links((DOCS / "reference" / "web-page.md").read_text())}
MOST_BYTES = 2_500_000


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("name", [*ROUTES.values(), "login"])
def test_every_board_page_has_a_picture_shown_in_the_reference(name, scheme):
    file = f"{name}-{scheme}.webp"
    assert (FOLDER / file).exists(), "make it with tests/e2e/board/test_pictures.py"
    assert f"web-page/{file}" in SHOWN


def test_each_picture_is_shown_and_all_are_small():
    found = {file.name: file.stat().st_size for file in FOLDER.iterdir()}
    assert {f"web-page/{name}" for name in found} <= SHOWN
    assert sum(found.values()) < MOST_BYTES
