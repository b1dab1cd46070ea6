"""Regular expressions of RE2, which Go and Volcano use: their syntax, with Go's messages for errors.

RE2 has neither look-around nor back-references, so that matching takes linear time. Python's `re` has both, and another syntax,
so this module parses the expressions itself.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final

MAX_REPEAT: Final = 1000
MAX_DEPTH: Final = 1000
MAX_LENGTH: Final = 10_000

_CLASSES = frozenset("dswDSW")
_ASSERTIONS = frozenset("AbBzQ")
_CONTROL = frozenset("afnrtv")
_POSIX = frozenset(
    "alnum alpha ascii blank cntrl digit graph lower print punct space upper word xdigit".split()  # noqa: SIM905
)
_REPEAT = re.compile(r"\{([0-9]+)(,([0-9]*))?\}", re.ASCII)
_FLAGS = re.compile(r"\(\?([imsU]*)(-([imsU]+))?[:)]", re.ASCII)
_NAME = re.compile(r"[A-Za-z0-9_]+", re.ASCII)
_PROPERTY = re.compile(r"[pP](\{\^?[A-Za-z_]+\}|[A-Z])", re.ASCII)
_HEX = re.compile(r"x([0-9A-Fa-f]{2}|\{[0-9A-Fa-f]{1,8}\})", re.ASCII)
_BROKEN_HEX = re.compile(r"x(\{[0-9A-Fa-f]*|[0-9A-Fa-f]?)", re.ASCII)
_OCTAL = re.compile(r"0[0-7]{0,2}|[1-7][0-7]{1,2}", re.ASCII)


class RegexError(ValueError):
    """The expression is not valid RE2; the text is Go's message, with the faulty part."""

    def __init__(self, code: str, part: str) -> None:
        super().__init__(f"{code}: `{part}`")


def check_regex(pattern: str) -> None:
    """Check the syntax of `pattern`. RegexError: it is not a valid RE2 expression."""
    if len(pattern) > MAX_LENGTH:
        raise RegexError("expression too large", pattern[:32])
    _Reader(pattern).read()


@dataclass(slots=True)
class _Last:
    """The operator before the current position: its start (-1 for none), and whether it is a repetition."""

    start: int = -1
    repeats: bool = False


class _Reader:
    def __init__(self, pattern: str) -> None:
        self._pattern = pattern
        self._at = 0
        self._open = 0

    def read(self) -> None:
        pattern = self._pattern
        repeatable = _Last()
        has_operand = False
        while self._at < len(pattern):
            start, character = self._at, pattern[self._at]
            if character in "*+?" or (character == "{" and _REPEAT.match(pattern, self._at)):
                if not has_operand:
                    raise RegexError("missing argument to repetition operator", self._repetition())
                before = repeatable
                repetition = self._repetition()
                if before.repeats:
                    raise RegexError("invalid nested repetition operator", pattern[before.start : start] + repetition)
                repeatable = _Last(start, repeats=True)
                continue
            repeatable = _Last()
            has_operand = self._element(character, has_operand=has_operand)
        if self._open:
            raise RegexError("missing closing )", pattern)

    def _element(self, character: str, *, has_operand: bool) -> bool:
        """Step over one element; return whether an operand for a repetition now exists. Flags do not change that."""
        if character == "(":
            return has_operand if self._group() else False
        if character == ")":
            if not self._open:
                raise RegexError("unexpected )", self._pattern)
            self._open -= 1
            self._at += 1
            return True
        if character == "|":
            self._at += 1
            return False
        if character == "[":
            self._bracket()
        elif character == "\\":
            self._escape(in_bracket=False)
        else:
            self._at += 1
        return True

    def _repetition(self) -> str:
        pattern, start = self._pattern, self._at
        match = _REPEAT.match(pattern, start)
        if match:
            low = int(match[1][:6])
            high = int(match[3][:6]) if match[3] else low
            if low > MAX_REPEAT or high > MAX_REPEAT or low > high:
                raise RegexError("invalid repeat count", match[0])
        self._at = match.end() if match else start + 1
        if pattern[self._at : self._at + 1] == "?":
            self._at += 1
        return pattern[start : self._at]

    def _group(self) -> bool:
        """Step into a group; return whether the group only sets flags."""
        pattern, start = self._pattern, self._at
        if self._open >= MAX_DEPTH:
            raise RegexError("expression nests too deeply", pattern[:32])
        rest = pattern[start : start + 5]
        named = next((prefix for prefix in ("(?P<", "(?<") if rest.startswith(prefix) and rest != prefix), None)
        if named:
            self._named(named)
        elif pattern.startswith("(?", start):
            match = _FLAGS.match(pattern, start)
            if not match:
                raise self._bad_flags()
            self._at = match.end()
            if match[0].endswith(")"):
                return True
        else:
            self._at += 1
        self._open += 1
        return False

    def _bad_flags(self) -> RegexError:
        start = self._at
        match = re.compile(r"\(\?[imsU]*(-[imsU]*)?.?", re.DOTALL).match(self._pattern, start)
        return RegexError("invalid or unsupported Perl syntax", match[0] if match else self._pattern[start:])

    def _named(self, prefix: str) -> None:
        pattern, start = self._pattern, self._at
        end = pattern.find(">", start)
        if end < 0:
            raise RegexError("invalid named capture", pattern[start:])
        name = pattern[start + len(prefix) : end]
        if not _NAME.fullmatch(name):
            raise RegexError("invalid named capture", pattern[start : end + 1])
        self._at = end + 1

    def _bracket(self) -> None:
        pattern, start = self._pattern, self._at
        self._at += 2 if pattern.startswith("[^", start) else 1
        first = True
        while first or pattern[self._at : self._at + 1] != "]":
            if self._at >= len(pattern):
                raise RegexError("missing closing ]", pattern[start:])
            first = False
            if pattern.startswith("[:", self._at) and (end := pattern.find(":]", self._at + 2)) >= 0:
                if pattern[self._at + 2 : end].removeprefix("^") not in _POSIX:
                    raise RegexError("invalid character class range", pattern[self._at : end + 2])
                self._at = end + 2
                continue
            self._bracket_range(start)
        self._at += 1

    def _bracket_range(self, bracket: int) -> None:
        pattern, start = self._pattern, self._at
        low = self._bracket_character(bracket)
        if pattern[self._at : self._at + 1] != "-" or pattern[self._at + 1 : self._at + 2] in ("]", ""):
            return
        if low is None:
            return
        self._at += 1
        # a class cannot end a range
        if pattern[self._at] == "\\" and pattern[self._at + 1 : self._at + 2] in _CLASSES | {"p", "P"}:
            raise RegexError("invalid escape sequence", pattern[self._at : self._at + 2])
        high = self._bracket_character(bracket)
        if high is None or high < low:
            raise RegexError("invalid character class range", pattern[start : self._at])

    def _bracket_character(self, bracket: int) -> int | None:
        """Return the code of one character inside brackets; None for a class of characters."""
        if self._at >= len(self._pattern):
            raise RegexError("missing closing ]", self._pattern[bracket:])
        if self._pattern[self._at] == "\\":
            return self._escape(in_bracket=True)
        self._at += 1
        return ord(self._pattern[self._at - 1])

    def _escape(self, *, in_bracket: bool) -> int | None:
        """Step over an escape sequence; return the code of its character, None when it means several characters or none."""
        pattern, start = self._pattern, self._at
        rest = pattern[start + 1 : start + 2]
        if not rest:
            raise RegexError("trailing backslash at end of expression", "")
        if rest in "pP":
            if not (match := _PROPERTY.match(pattern, start + 1)):
                end = pattern.find("}", start) + 1 if pattern.startswith("{", start + 2) else start + 3
                raise RegexError("invalid character class range", pattern[start : end or len(pattern)])
            self._at = match.end()
            return None
        if rest in _CLASSES or (rest in _ASSERTIONS and not in_bracket):
            self._at += 2
            if rest == "Q":
                end = pattern.find("\\E", self._at)
                self._at = len(pattern) if end < 0 else end + 2
            return None
        for form, base in ((_HEX, 16), (_OCTAL, 8)):
            if match := form.match(pattern, start + 1):
                self._at = match.end()
                code = int(match[0].strip("x{}"), base)
                if code > 0x10FFFF:
                    raise RegexError("invalid escape sequence", pattern[start : self._at])
                return code
        if rest in _CONTROL:
            self._at += 2
            return {"a": 7, "f": 12, "n": 10, "r": 13, "t": 9, "v": 11}[rest]
        if rest.isascii() and not rest.isalnum():
            self._at += 2
            return ord(rest)
        broken = _BROKEN_HEX.match(pattern, start + 1)
        raise RegexError("invalid escape sequence", pattern[start : broken.end() + 1 if broken else start + 2])
