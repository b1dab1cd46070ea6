"""The Markdown pages of the project, and what the tests of this folder read out of them."""

import re
import textwrap
from pathlib import Path

ROOT = Path(__file__).parents[3]
DOCS = ROOT / "docs"
PAGES = {
    str(path.relative_to(ROOT)): path.read_text()
    for path in sorted([*ROOT.glob("*.md"), *DOCS.rglob("*.md"), *(ROOT / "certs").glob("*.md")])
}


FENCED = re.compile(r"^( *)```(\w*)\n(.*?)^\1```$", re.MULTILINE | re.DOTALL)


def blocks(text: str, *languages: str) -> list[str]:
    """The fenced code blocks of a page in one of the languages; "" is a fence without a language. Lists may hold them."""
    return [textwrap.dedent(block) for _, language, block in FENCED.findall(text) if language in languages]


def without_code(text: str) -> str:
    """A page without its fenced blocks, and with `…` for code in the line."""
    return re.sub(r"`[^`\n]*`", "`…`", FENCED.sub("", text))


def links(text: str) -> list[tuple[str, str]]:
    """File and anchor of each link that leads into the repository."""
    found = re.findall(r"\]\(([^)\s#]*)(?:#([^)\s]*))?\)", without_code(text))
    return [(file, anchor) for file, anchor in found if "://" not in file]


def anchors(text: str) -> set[str]:
    """The anchors that a code host makes of the headings of a page."""
    headings = re.findall(r"^#+ (.+)$", FENCED.sub("", text), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).strip().replace(" ", "-") for heading in headings}
