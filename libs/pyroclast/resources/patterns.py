"""Regular expressions that users write: those of RE2, which Go has too, and whose matching takes linear time."""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache
from typing import Any, Final, Protocol

import re2

__all__ = ["BadPattern", "Pattern", "compile_pattern"]

_OPTIONS: Final = re2.Options()
_OPTIONS.log_errors = False  # they are told to who sent the expression


class Pattern(Protocol):
    """A compiled expression."""

    def search(self, text: str) -> object | None:
        """The first match, None where there is none."""

    def finditer(self, text: str) -> Iterator[Any]:
        """All matches, from left to right."""


class BadPattern(ValueError):
    """No regular expression; the text says why."""


@lru_cache(maxsize=1024)
def compile_pattern(pattern: str) -> Pattern:
    """`pattern` compiled; look-around and back-references, which RE2 lacks, are refused.

    Raises:
        BadPattern: It cannot be.
    """
    try:
        compiled: Pattern = re2.compile(pattern, _OPTIONS)
    except re2.error as error:
        why = error.args[0] if error.args else ""
        raise BadPattern(f"error parsing regexp: {why.decode(errors='replace') if isinstance(why, bytes) else why}") from None
    return compiled
