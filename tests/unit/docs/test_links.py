"""Links between the pages lead to a file and to a heading that exist."""

import pytest

from tests.unit.docs.pages import PAGES, ROOT, anchors, links


@pytest.mark.parametrize("page", PAGES)
def test_links_lead_to_a_file_and_a_heading(page):
    for file, anchor in links(PAGES[page]):
        target = ((ROOT / page).parent / file).resolve() if file else ROOT / page
        assert target.exists(), f"{page}: there is no {file}"
        if anchor and target.suffix == ".md":
            assert anchor in anchors(target.read_text()), f"{page}: {target.name} has no heading #{anchor}"


def reached_from_the_index():
    """The pages that the index of docs leads to, by links to a page or to its folder."""
    reached, new = set(), {"docs/README.md"}
    while new:
        reached |= new
        targets = {((ROOT / each).parent / file).resolve() for each in new for file, _ in links(PAGES[each]) if file}
        new = {page for page in PAGES if {ROOT / page, (ROOT / page).parent} & targets} - reached
    return reached


REACHED = reached_from_the_index()


@pytest.mark.parametrize("page", [page for page in PAGES if page.startswith("docs/")])
def test_every_page_of_docs_is_reached_from_its_index(page):
    assert page in REACHED
