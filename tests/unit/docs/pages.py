"""The Markdown pages of the project, and what the tests of this folder read out of them."""

import re
from pathlib import Path

ROOT = Path(__file__).parents[3]
DOCS = ROOT / "docs"
PAGES = {
    str(path.relative_to(ROOT)): path.read_text()
    for path in sorted([*ROOT.glob("*.md"), *DOCS.rglob("*.md"), *(ROOT / "certs").glob("*.md")])
}


def blocks(text: str, *languages: str) -> list[str]:
    """The fenced code blocks of a page in one of the languages; "" is a fence without a language."""
    fenced = re.findall(r"^```(\w*)\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)
    return [block for language, block in fenced if language in languages]


def without_code(text: str) -> str:
    """A page without its fenced blocks and its code in the line."""
    return re.sub(r"`[^`\n]*`", "`…`", re.sub(r"^```.*?^```$", "", text, flags=re.MULTILINE | re.DOTALL))


def links(text: str) -> list[tuple[str, str]]:
    """File and anchor of each link that leads into the repository."""
    found = re.findall(r"\]\(([^)\s#]*)(?:#([^)\s]*))?\)", without_code(text))
    return [(file, anchor) for file, anchor in found if "://" not in file]


def anchors(text: str) -> set[str]:
    """The anchors that a code host makes of the headings of a page."""
    headings = re.findall(r"^#+ (.+)$", re.sub(r"^```.*?^```$", "", text, flags=re.MULTILINE | re.DOTALL), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).strip().replace(" ", "-") for heading in headings}
