"""README, tutorials, how-to guides, references, explanations and the changelog are written in short sentences and plain words."""

import pytest

from tests.unit.docs.pages import PAGES
from tests.unit.docs.prose import MOST_WORDS, faults, sentences

CHECKED = {page: text for page, text in PAGES.items() if page != "CHANGELOG.md"}
UNRELEASED = PAGES["CHANGELOG.md"].partition("## [Unreleased]\n")[2].partition("\n## ")[0]


@pytest.mark.parametrize("page", CHECKED)
def test_a_page_has_short_sentences_and_plain_words(page):
    assert faults(CHECKED[page]) == []


def test_the_unreleased_changes_are_short_sentences_in_plain_words():
    assert UNRELEASED
    assert faults(UNRELEASED) == []


def test_a_change_is_one_sentence():
    changes = [line.removeprefix("- ") for line in UNRELEASED.splitlines() if line.startswith("- ")]
    assert [change for change in changes if len(list(sentences(change))) != 1 or not change.endswith(".")] == []


@pytest.mark.parametrize("bad", [" ".join(["word"] * (MOST_WORDS + 1)), "You simply run it.", "- In order to stop,\n  wait."])
def test_long_sentences_and_words_that_are_not_used_are_found(bad):
    assert len(faults(bad)) == 1


@pytest.mark.parametrize(
    "good",
    [
        " ".join(["word"] * MOST_WORDS),
        f"{' '.join(['Word'] * 20)}. {' '.join(['Word'] * 20)}.",
        f"| {' | '.join(['a cell of five words'] * 10)} |",
        "```\nsimply\n```",
        "The flag `--simply` does it.",
    ],
)
def test_code_cells_and_short_sentences_pass(good):
    assert faults(good) == []
