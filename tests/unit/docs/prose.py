"""A small check of prose: sentences are short, and some words are not used."""

import ast
import re
from collections.abc import Iterator
from pathlib import Path

from tests.unit.docs.pages import without_code

MOST_WORDS = 30
MOST_WORDS_OF_DOCSTRING = 35
WORD = re.compile(r"[\w`…][\w`…'’./*-]*")
SENTENCE_END = re.compile(r"(?<=[.!?])\s+(?=[A-Z`*…\[])")
PASSIVE = re.compile(
    r"(It|They|This|These) (is|are|was|were) (not )?(\w+ed|said|told|done|made|known|given|taken|kept|held|written)\b"
)
BLOCK_START = re.compile(r"\s*(#|[-*] |\d+\. |\||>)")
# words that hide who acts, that flatter, or for which the field has another word
NOT_USED = {
    "simply": "leave it out",
    "obviously": "leave it out",
    "of course": "leave it out",
    "easily": "leave it out",
    "seamless": "say what happens",
    "robustly": "say which fault is survived",
    "in order to": "to",
    "utilize": "use",
    "leverage": "use",
    "bring about": "reconcile",
    "brings about": "reconciles",
    "look at a key": "reconcile",
    "hindrance": "transient error",
    "heed": "obey, or take into account",
    "heeded": "obeyed, or taken into account",
    "is said": "the component that says it",
    "are said": "the component that says it",
    "as is told": "the component that tells it",
    "the original": "Volcano",
    "whilst": "while",
    "shall": "must, or the present tense",
    "wherein": "in which",
    "thereof": "of it",
}


def paragraphs(text: str) -> Iterator[str]:
    """The paragraphs, list items, headings and table cells of a page, each on one line, without code and links' targets."""
    plain = re.sub(r"\]\([^)]*\)", "]", without_code(text))
    lines: list[str] = []
    for line in [*plain.splitlines(), ""]:
        if not line.strip() or BLOCK_START.match(line):
            yield " ".join(lines)
            lines = []
        if line.lstrip().startswith("|"):
            yield from (cell.strip() for cell in line.split("|"))
        elif line.strip():
            lines.append(line.strip())


def sentences(text: str) -> Iterator[str]:
    """The sentences of a page. A list item or a table cell is at least one."""
    for paragraph in paragraphs(text):
        yield from (each for each in SENTENCE_END.split(paragraph) if each)


def faults(text: str, *, most: int = MOST_WORDS) -> list[str]:
    """What is wrong with the prose of a page, one line for each fault: the sentence, what is wrong, what would be right.

    `most`: words of a sentence.
    """
    found = []
    for sentence in sentences(text):
        words = len(WORD.findall(sentence))
        if words > most:
            found.append(f"{sentence!r} has {words} words; split it, {most} is the most")
        if PASSIVE.match(sentence):
            found.append(f"{sentence!r} begins in the passive; say who does it")
        low = sentence.lower()
        used = [word for word in NOT_USED if re.search(rf"\b{word}\b", low)]
        found += [f"{sentence!r} has the word {word!r}; say: {NOT_USED[word]}" for word in used]
    return found


def docstrings(file: Path) -> Iterator[tuple[str, str]]:
    """The docstrings of a module and of its public classes and functions, by name, without sections, examples and tables."""

    def within(node: ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef, name: str) -> Iterator[tuple[str, str]]:
        if text := ast.get_docstring(node):
            prose = re.split(r"^(?:Args|Attributes|Raises|Returns):$", text, maxsplit=1, flags=re.MULTILINE)[0]
            lines = [line for line in prose.splitlines() if not line.startswith(" ") and "──" not in line]
            yield name, re.sub(r"; (?=`)", ".\n\n", "\n".join(lines))
        if not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            for part in node.body:
                if isinstance(part, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef) and not part.name.startswith("_"):
                    yield from within(part, f"{name}.{part.name}")

    yield from within(ast.parse(file.read_text()), file.stem)
