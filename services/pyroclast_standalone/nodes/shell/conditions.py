"""The commands `test` and `[`, which are the conditions of shell scripts."""

from __future__ import annotations

import re
from collections.abc import Callable

from pyroclast_standalone.nodes.shell.machine import Shell

_COMPARISONS: dict[str, Callable[[int, int], bool]] = {
    "-eq": int.__eq__,
    "-ne": int.__ne__,
    "-lt": int.__lt__,
    "-le": int.__le__,
    "-gt": int.__gt__,
    "-ge": int.__ge__,
}


def test(shell: Shell, words: list[str], _: str) -> int:
    """Return the status of `test WORDS` or `[ WORDS ]`."""
    return int(not _holds(shell, words[:-1] if words[-1:] == ["]"] else words))


def _holds(shell: Shell, words: list[str]) -> bool:
    match words:
        case ["!", *rest]:
            return not _holds(shell, rest)
        case ["-z", text]:
            return not text
        case ["-n", text]:
            return bool(text)
        case [("-f" | "-e" | "-s" | "-r" | "-d" | "-x"), path]:
            return shell.read(path) is not None
        case [left, ("=" | "=="), right]:
            return left == right
        case [left, "!=", right]:
            return left != right
        case [left, comparison, right] if comparison in _COMPARISONS and _are_integers(left, right):
            return _COMPARISONS[comparison](int(left), int(right))
        case [text]:
            return bool(text)
        case _:
            return False


def _are_integers(*texts: str) -> bool:
    return all(re.fullmatch(r"-?\d+", text) for text in texts)
