"""Regular expressions of users, in the syntax of RE2, which Go uses too. Matching takes linear time."""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache
from typing import Any, Final, Protocol

import re2

_OPTIONS: Final = re2.Options()
_OPTIONS.log_errors = False  # the error is returned to the user who sent the expression


class Pattern(Protocol):
    """A compiled regular expression."""

    def search(self, text: str) -> object | None:
        """Return the first match; None when there is none."""

    def finditer(self, text: str) -> Iterator[Any]:
        """Return all matches, from left to right."""


class BadPattern(ValueError):
    """The text is not a valid regular expression; the message says why."""


_WORDS_OF_GO: Final = {
    "missing ]": "missing closing ]",
    "missing )": "missing closing )",
    "trailing \\": "trailing backslash at end of expression",
    "no argument for repetition operator": "missing argument to repetition operator",
    "invalid repetition size": "invalid repeat count",
    "bad repetition operator": "invalid nested repetition operator",
    "invalid perl operator": "invalid or unsupported Perl syntax",
    "invalid named capture group": "invalid named capture",
    "pattern too large - compile failed": "expression too large",
}
"""The messages of Go by those of RE2, where they differ."""


def check_pattern(pattern: str) -> Pattern:
    """Compile `pattern`. Look-around and back-references, which RE2 lacks, are refused.

    Raises BadPattern: `pattern` is not a valid regular expression. The message is that of Go.
    """
    try:
        compiled: Pattern = re2.compile(pattern, _OPTIONS)
    except re2.error as error:
        said = error.args[0] if error.args else b""
        what, _, part = (said.decode(errors="replace") if isinstance(said, bytes) else said).partition(": ")
        what = _WORDS_OF_GO.get(what, what)
        if part in {"(?<=", "(?<!"}:  # Go looks for the end of a name
            rest = pattern[pattern.index(part) :]
            what, part = "invalid named capture", rest[: rest.find(">") + 1] or rest
        raise BadPattern(f"error parsing regexp: {what}: `{part}`") from None
    return compiled


@lru_cache(maxsize=1024)
def compile_pattern(pattern: str) -> Pattern:
    """Return `check_pattern(pattern)`, and remember it."""
    return check_pattern(pattern)
