"""A small check of prose: sentences are short, and some words are not used."""

import re
from collections.abc import Iterator

from tests.unit.docs.pages import without_code

MOST_WORDS = 30
WORD = re.compile(r"[\w`…][\w`…'’./*-]*")
SENTENCE_END = re.compile(r"(?<=[.!?])\s+(?=[A-Z`*…\[])")
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


def faults(text: str) -> list[str]:
    """What is wrong with the prose of a page, one line for each fault: the sentence, what is wrong, what would be right."""
    found = []
    for sentence in sentences(text):
        words = len(WORD.findall(sentence))
        if words > MOST_WORDS:
            found.append(f"{sentence!r} has {words} words; split it, {MOST_WORDS} is the most")
        low = sentence.lower()
        used = [word for word in NOT_USED if re.search(rf"\b{word}\b", low)]
        found += [f"{sentence!r} has the word {word!r}; say: {NOT_USED[word]}" for word in used]
    return found
