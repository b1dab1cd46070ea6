"""Regular expressions of the API (RE2) as Python's."""

from __future__ import annotations

import re
import sys
import unicodedata
from collections.abc import Callable
from functools import lru_cache
from itertools import chain, groupby
from typing import Final, TypeAlias

__all__ = ["BadPattern", "compile_pattern"]

_POSIX: Final = {
    "alnum": "0-9A-Za-z",
    "alpha": "A-Za-z",
    "ascii": r"\x00-\x7F",
    "blank": r"\t ",
    "cntrl": r"\x00-\x1F\x7F",
    "digit": "0-9",
    "graph": "!-~",
    "lower": "a-z",
    "print": " -~",
    "punct": r"!-/:-@\[-`{-~",
    "space": r"\t\n\v\f\r ",
    "upper": "A-Z",
    "word": "0-9A-Za-z_",
    "xdigit": "0-9A-Fa-f",
}
_CLASSES: Final = {"d": "0-9", "s": r"\t\n\f\r ", "w": "0-9A-Za-z_", "D": r"\D", "S": r"\S\v", "W": r"\W"}
_PLACES: Final = {"A": r"\A", "b": r"\b", "B": r"\B", "z": r"\Z"}
_UNREPEATABLE: Final = {"^", "$", *_PLACES.values()}
_LETTERS: Final = {"a": "\a", "f": "\f", "n": "\n", "r": "\r", "t": "\t", "v": "\v"}
_REPEAT: Final = re.compile(r"(?:[*+?]|\{(\d+)(,)?(\d*)\})\??")
_FLAGS: Final = re.compile(r"\(\?([imsU]*)(?:-([imsU]+))?([:)])")
_NAMED: Final = re.compile(r"\(\?P?<(\w+)>", re.ASCII)
_ASSIGNED: Final = (range(0x32400), range(0xE0000, 0xE0200))
"""Where Unicode has characters, private ones excepted."""
_MOST_REPEATS: Final = 1000


class BadPattern(ValueError):
    """Not a regular expression of the API. The text says why, as the API does."""

    def __init__(self, problem: str, part: str) -> None:
        super().__init__(f"error parsing regexp: {problem}: `{part}`")


@lru_cache(maxsize=1024)
def compile_pattern(pattern: str) -> re.Pattern[str]:
    """`pattern` compiled; look-around and back-references, which RE2 lacks, are refused.

    Raises:
        BadPattern: it cannot be.
    """
    try:
        return re.compile(_Translator(pattern).translated(), re.ASCII)
    except (re.error, OverflowError, RecursionError) as error:
        raise BadPattern(str(error), pattern) from None


_Runs: TypeAlias = list[tuple[int, int]]


def _runs(holds: Callable[[str], bool]) -> _Runs:
    """The runs of characters for which `holds` is true, each with its first and last one."""
    runs: _Runs = []
    for is_in, run in groupby(chain(*_ASSIGNED), lambda code: holds(chr(code))):
        if is_in:
            codes = list(run)
            runs.append((codes[0], codes[-1]))
    return runs


def _others(runs: _Runs) -> _Runs:
    ends = [-1, *(last for _, last in runs)]
    starts = [*(first for first, _ in runs), sys.maxunicode + 1]
    return [(end + 1, start - 1) for end, start in zip(ends, starts, strict=True) if end + 1 < start]


def _content(runs: _Runs) -> str:
    """What stands in a set that has these characters."""
    return "".join(f"\\U{first:08x}-\\U{last:08x}" for first, last in runs)


@lru_cache(maxsize=32)
def _unicode(name: str) -> tuple[str, str]:
    """The sets of all characters in the category or script `name`, and of all others; empty texts where there is none."""
    if len(name) <= 2:
        runs = _runs(lambda character: unicodedata.category(character).startswith(name))
    else:  # a character's name begins with its script
        script = f"{name.upper()} "
        runs = _runs(lambda character: unicodedata.name(character, "").startswith(script))
    return (_content(runs), _content(_others(runs))) if runs else ("", "")


@lru_cache(maxsize=32)
def _outside(content: str) -> str:
    """The content of a set that has what the set of `content`, which is ASCII, lacks."""
    inside = re.compile(f"[{content}]")
    return _content(_others(_runs(lambda character: inside.match(character) is not None)))


class _Translator:
    """Copies a pattern, replacing what the two languages write differently."""

    def __init__(self, pattern: str) -> None:
        self._text = pattern
        self._at = 0
        self._flags = [""]  # in force, one entry per open group

    def translated(self) -> str:
        result: list[str] = []
        has_operand = False
        while self._at < len(self._text):
            character = self._text[self._at]
            if character in "*+?" or (character == "{" and _REPEAT.match(self._text, self._at)):
                operator = self._repeat(has_operand=has_operand)
                if result[-1] in _UNREPEATABLE:
                    result[-1] = f"(?:{result[-1]})"
                result.append(operator)
                continue
            has_operand = character not in "(|"
            match character:
                case "\\":
                    result.append(self._escape())
                case "[":
                    result.append(self._set())
                case "(":
                    result.append(self._open())
                case ")":
                    result.append(self._close())
                case "$":
                    result.append(r"$" if "m" in self._flags[-1] else r"\Z")
                    self._at += 1
                case "{":
                    result.append(r"\{")
                    self._at += 1
                case _:
                    result.append(character)
                    self._at += 1
        if len(self._flags) > 1:
            raise BadPattern("missing closing )", self._text)
        return "".join(result)

    def _repeat(self, *, has_operand: bool) -> str:
        found = _REPEAT.match(self._text, self._at)
        operator = found[0] if found else ""
        if not has_operand:
            raise BadPattern("missing argument to repetition operator", operator)
        if found and found[1] and (int(found[3] or found[1]) < int(found[1]) or int(found[3] or found[1]) > _MOST_REPEATS):
            raise BadPattern("invalid repeat count", operator)
        self._at += len(operator)
        if again := _REPEAT.match(self._text, self._at):
            raise BadPattern("invalid nested repetition operator", operator + again[0])
        return operator

    def _open(self) -> str:
        text = self._text[self._at :]
        if not text.startswith("(?"):
            self._at += 1
            self._flags.append(self._flags[-1])
            return "("
        if text.startswith(("(?P<", "(?<")):
            named = _NAMED.match(text)
            if named is None:
                end = text.find(">")
                raise BadPattern("invalid named capture", text[: end + 1] if end >= 0 else text)
            self._at += named.end()
            self._flags.append(self._flags[-1])
            return "("
        flags = _FLAGS.match(text)
        if flags is None:
            known = re.match(r"\(\?[imsU-]*", text)
            length = known.end() + 1 if known else 3
            raise BadPattern("invalid or unsupported Perl syntax", text[:length])
        self._at += flags.end()
        now = "".join(flag for flag in "ims" if flag in self._flags[-1] + flags[1] and flag not in (flags[2] or ""))
        if flags[3] == ")":
            return self._switched(now)
        self._flags.append(now)
        return f"(?{_difference(self._flags[-2], now)}:"

    def _switched(self, now: str) -> str:
        """Flags that hold to the end of the group: the rest of the group becomes one of its own."""
        start, depth, escaped, in_set = self._at, 0, False, False
        end = len(self._text)
        for index in range(start, end):
            character = self._text[index]
            if escaped:
                escaped = False
            elif character == "\\":
                escaped = True
            elif in_set:
                in_set = character != "]"
            elif character == "[":
                in_set = True
            elif character == "(":
                depth += 1
            elif character == ")":
                depth -= 1
                if depth < 0:
                    end = index
                    break
        inner = _Translator(self._text[start:end])
        inner._flags = [now]
        self._at = end
        return f"(?{_difference(self._flags[-1], now)}:{inner.translated()})"

    def _close(self) -> str:
        self._at += 1
        if len(self._flags) == 1:
            raise BadPattern("unexpected )", self._text)
        self._flags.pop()
        return ")"

    def _escape(self) -> str:
        text = self._text[self._at :]
        following = text[1:2]
        if following == "Q":
            end = text.find(r"\E")
            self._at += len(text) if end < 0 else end + 2
            return re.escape(text[2:] if end < 0 else text[2:end])
        if following in _PLACES:
            self._at += 2
            return _PLACES[following]
        if (content := self._class()) is not None:
            return f"[{content}]"
        return re.escape(self._character())

    def _class(self) -> str | None:
        r"""The content of a class such as `\d`; None where no class stands."""
        text = self._text[self._at :]
        if found := re.match(r"\\([dswDSW])", text):
            self._at += 2
            return _CLASSES[found[1]]
        if not text.startswith(("\\p", "\\P")):
            return None
        found = re.match(r"\\[pP](?:\{(\^?)(\w+)\}|(\w))", text, re.ASCII)
        sets = _unicode(found[2] or found[3]) if found else ("", "")
        if found is None or not sets[0]:
            raise BadPattern("invalid character class range", found[0] if found else text)
        self._at += found.end()
        return sets[(text[1] == "P") != bool(found[1])]

    def _character(self) -> str:
        """One character, perhaps escaped."""
        text = self._text[self._at :]
        if text[0] != "\\":
            self._at += 1
            return text[0]
        following = text[1:2]
        if following == "":
            raise BadPattern("trailing backslash at end of expression", "")
        found = re.match(r"\\(?:x\{([0-9A-Fa-f]+)\}|x([0-9A-Fa-f]{2})|(0[0-7]{0,2}|[1-7][0-7]{1,2}))", text)
        if found is not None:
            code = int(found[3], 8) if found[3] else int(found[1] or found[2], 16)
            if code > sys.maxunicode:
                raise BadPattern("invalid escape sequence", found[0])
            self._at += found.end()
            return chr(code)
        if following in _LETTERS or (following.isascii() and not following.isalnum()):
            self._at += 2
            return _LETTERS.get(following, following)
        part = text[:2] if following != "x" else text[: 3 if text[2:3] else 2]
        raise BadPattern("invalid escape sequence", part)

    def _set(self) -> str:
        start = self._at
        self._at += 1
        result = ["["]
        if self._text.startswith("^", self._at):
            result.append("^")
            self._at += 1
        is_first = True
        while is_first or not self._text.startswith("]", self._at):
            is_first = False
            if self._at >= len(self._text):
                raise BadPattern("missing closing ]", self._text[start:])
            result.append(self._member())
        self._at += 1
        return "".join(result) + "]"

    def _member(self) -> str:
        """A class, a range or a character in a set."""
        text = self._text[self._at :]
        if posix := re.match(r"\[:(\^?)(\w+):\]", text):
            if posix[2] not in _POSIX:
                raise BadPattern("invalid character class range", posix[0])
            self._at += posix.end()
            return _outside(_POSIX[posix[2]]) if posix[1] else _POSIX[posix[2]]
        if (content := self._class()) is not None:
            return content
        start = self._at
        low = self._character()
        if not self._text.startswith("-", self._at) or self._text.startswith("-]", self._at) or self._at + 1 >= len(self._text):
            return re.escape(low)
        self._at += 1
        high = self._character()
        if high < low:
            raise BadPattern("invalid character class range", self._text[start : self._at])
        return f"{re.escape(low)}-{re.escape(high)}"


def _difference(before: str, now: str) -> str:
    """How a group says that flags change."""
    on = "".join(flag for flag in now if flag not in before)
    off = "".join(flag for flag in before if flag not in now)
    return f"{on}-{off}" if off else on
