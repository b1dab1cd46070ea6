"""README, tutorials, how-to guides, references, explanations and the changelog are written in short sentences and plain words."""

import pytest

from tests.unit.docs.pages import PAGES, ROOT
from tests.unit.docs.prose import MOST_WORDS, MOST_WORDS_OF_DOCSTRING, docstrings, faults, sentences

CHECKED = {page: text for page, text in PAGES.items() if page != "CHANGELOG.md"}
MODULES = [file for folder in ("libs", "services") for file in sorted((ROOT / folder).rglob("*.py"))]
LISTS = {"extension_points.Extensions"}
"""Docstrings that are lists of names, each with a phrase of its own."""
PRONOUNS = {"It", "Its", "They", "Their", "Those", "That", "There", "As", "Of", "Whom", "Whose"}
UNRELEASED = PAGES["CHANGELOG.md"].partition("## [Unreleased]\n")[2].partition("\n## ")[0]


@pytest.mark.parametrize("page", CHECKED)
def test_a_page_has_short_sentences_and_plain_words(page):
    assert faults(CHECKED[page]) == []


def test_the_unreleased_changes_are_short_sentences_in_plain_words():
    assert UNRELEASED
    assert faults(UNRELEASED) == []


def test_every_unreleased_change_is_one_sentence():
    changes = [line.removeprefix("- ") for line in UNRELEASED.splitlines() if line.startswith("- ")]
    assert [change for change in changes if len(list(sentences(change))) != 1 or not change.endswith(".")] == []


def test_public_docstrings_have_short_sentences_and_plain_words():
    texts = [(name, text) for file in MODULES for name, text in docstrings(file) if name not in LISTS]
    assert len(texts) > 5000
    wrong = [(name, fault) for name, text in texts for fault in faults(text, most=MOST_WORDS_OF_DOCSTRING)]
    assert wrong == []


def test_public_docstrings_begin_with_a_noun_or_a_verb():
    texts = [(name, text) for file in MODULES for name, text in docstrings(file)]
    assert [(name, text) for name, text in texts if text.split()[0] in PRONOUNS] == []


def test_docstring_check_skips_sections_tables_and_private_functions(tmp_path):
    file = tmp_path / "module.py"
    lines = ["It adds.", "", "    simply  a table", "", "Args:", "    a: it is simply a number."]
    file.write_text(
        '"""Sums."""\n\ndef add(a):\n    """' + "\n    ".join(lines) + '\n    """\n\ndef _hidden():\n    """Simply."""\n'
    )
    assert [(name, text.strip()) for name, text in docstrings(file)] == [("module", "Sums."), ("module.add", "It adds.")]


@pytest.mark.parametrize(
    "bad",
    [
        " ".join(["word"] * (MOST_WORDS + 1)),
        "You simply run it.",
        "- In order to stop,\n  wait.",
        "It is written by the controller.",
    ],
)
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
