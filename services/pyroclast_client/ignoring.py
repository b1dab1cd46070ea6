"""The rules of `.gitignore` files for the files of a project. Pure, except that it reads those files."""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Final, TypeAlias

FILE: Final = ".gitignore"

_PART: Final = re.compile(r"\*\*/|/\*\*$|\*|\?|\[[^\]]+\]|.")
_WILD: Final = {"**/": "(?:.*/)?", "/**": "/.*", "*": "[^/]*", "?": "[^/]"}

Rule: TypeAlias = tuple[re.Pattern[str], bool]


def ignored_in(root: Path) -> Callable[[str], bool]:
    """Return a function that takes a path relative to `root` and returns whether `.gitignore` files exclude it.

    The `.gitignore` files of the root and of the folders below it are used.
    """
    rules = cache(lambda folder: _rules(root / folder / FILE))

    def is_ignored(path: str) -> bool:
        parts = path.split("/")
        for length in range(1, len(parts) + 1):  # an ignored folder excludes all files in it
            verdict = False
            for depth in range(length):
                rest = "/".join(parts[depth:length]) + ("/" if length < len(parts) else "")
                for pattern, hides in rules("/".join(parts[:depth])):
                    if pattern.fullmatch(rest):
                        verdict = hides
            if verdict:
                return True
        return False

    return is_ignored


def _rules(path: Path) -> list[Rule]:
    try:
        lines = path.read_text(errors="replace").splitlines()
    except (FileNotFoundError, NotADirectoryError):
        return []
    return [_rule(line) for line in map(str.strip, lines) if line and not line.startswith("#")]


def _rule(line: str) -> Rule:
    """Return the pattern of a line, for paths relative to the `.gitignore` file. The path of a folder ends with a slash."""
    hides = not line.startswith("!")
    text = line.removeprefix("!").removeprefix("\\")
    is_anchored = "/" in text.rstrip("/")
    end = "/" if text.endswith("/") else "/?"
    core = text.strip("/") if not text.endswith("/**") else text.lstrip("/")
    pattern = "".join(_WILD.get(part) or (part if part[0] == "[" else re.escape(part)) for part in _PART.findall(core))
    return re.compile(("" if is_anchored else "(?:.*/)?") + pattern.replace("[!", "[^") + end), hides
