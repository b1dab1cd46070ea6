"""Regular expressions of users, in the syntax of RE2, which Go uses too. Matching takes linear time."""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache
from typing import Any, Final, Protocol

import re2

_OPTIONS: Final = re2.Options()
_OPTIONS.log_errors = False  # the error is returned to the user who sent the expression


MAX_LENGTH: Final = 10_000
"""Most characters of an expression: a longer one with many Unicode classes would be compiled for minutes."""


class Pattern(Protocol):
    """A compiled regular expression."""

    def search(self, text: str) -> object | None:
        """Return the first match; None when there is none."""

    def finditer(self, text: str) -> Iterator[Any]:
        """Return all matches, from left to right."""


class BadPattern(ValueError):
    """The text is not a valid regular expression; the message says why."""


@lru_cache(maxsize=1024)
def compile_pattern(pattern: str) -> Pattern:
    """Compile `pattern`. Look-around and back-references, which RE2 lacks, are refused.

    Raises BadPattern: `pattern` is not a valid regular expression.
    """
    if len(pattern) > MAX_LENGTH:
        raise BadPattern(f"error parsing regexp: expression too large: `{pattern[:32]}`")
    try:
        compiled: Pattern = re2.compile(pattern, _OPTIONS)
    except re2.error as error:
        why = error.args[0] if error.args else ""
        raise BadPattern(f"error parsing regexp: {why.decode(errors='replace') if isinstance(why, bytes) else why}") from None
    return compiled
