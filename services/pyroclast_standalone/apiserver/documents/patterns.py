"""Regular expressions of the API (RE2) as Python's."""

from __future__ import annotations

import re
from functools import lru_cache
from typing import Final

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
_CATEGORIES: Final = {"L": "^\\W\\d_", "N": "\\d", "Lu": "A-Z\u00c0-\u00de", "Ll": "a-z\u00df-\u00ff"}


class BadPattern(ValueError):
    """Not a regular expression of the API."""


@lru_cache(maxsize=1024)
def compile_pattern(pattern: str) -> re.Pattern[str]:
    """`pattern` compiled; look-around and back-references, which RE2 lacks, are refused.

    Raises:
        BadPattern: the text says why, as the API does for the common cases.
    """
    try:
        return re.compile(_Translator(pattern).translated(), re.ASCII)
    except (re.error, OverflowError) as error:
        raise BadPattern(_why(pattern, str(error))) from None


def _why(pattern: str, error: str) -> str:
    if "unterminated subpattern" in error or "missing )" in error:
        return f"error parsing regexp: missing closing ): `{pattern}`"
    if "unbalanced parenthesis" in error:
        return f"error parsing regexp: unexpected ): `{pattern}`"
    if "unterminated character set" in error:
        return f"error parsing regexp: missing closing ]: `{pattern[pattern.rfind('[') :]}`"
    if "nothing to repeat" in error:
        mark = next((each for each in pattern if each in "*+?"), "*")
        return f"error parsing regexp: missing argument to repetition operator: `{mark}`"
    return f"error parsing regexp: {error}"


class _Translator:
    """Copies a pattern, replacing what the two languages write differently."""

    def __init__(self, pattern: str) -> None:
        self._text = pattern
        self._at = 0
        self._multiline = False

    def translated(self) -> str:
        result: list[str] = []
        while self._at < len(self._text):
            character = self._text[self._at]
            match character:
                case "\\":
                    result.append(self._escape(inside=False))
                case "[":
                    result.append(self._set())
                case "$" if not self._multiline:
                    result.append(r"\Z")
                    self._at += 1
                case "(":
                    result.append(self._group())
                case _:
                    result.append(character)
                    self._at += 1
        return "".join(result)

    def _group(self) -> str:
        text = self._text[self._at :]
        for ahead in ("(?=", "(?!", "(?<=", "(?<!"):
            if text.startswith(ahead):
                raise BadPattern(
                    f"error parsing regexp: invalid or unsupported Perl syntax: `{ahead[: 4 if '<' in ahead else 3]}`"
                )
        flags = re.match(r"\(\?([imsU-]+)([:)])", text)
        if flags is not None:
            self._at += flags.end()
            on = flags[1].partition("-")[0].replace("U", "")
            self._multiline = self._multiline or "m" in on
            if flags[2] == ":":
                return f"(?{on}:" if on else "(?:"
            return f"(?{on})" if on and flags.start() == self._at - flags.end() == 0 else ""
        self._at += 1
        return "("

    def _escape(self, *, inside: bool) -> str:
        text = self._text[self._at :]
        following = text[1:2]
        if following == "":
            raise BadPattern("error parsing regexp: trailing backslash at end of expression: ``")
        if following == "Q" and not inside:
            end = text.find(r"\E")
            literal = text[2:] if end < 0 else text[2:end]
            self._at += len(text) if end < 0 else end + 2
            return re.escape(literal)
        if following in {"p", "P"}:
            return self._category(text, inside=inside)
        if following.isdigit() and following != "0":
            raise BadPattern(f"error parsing regexp: invalid escape sequence: `\\{following}`")
        if hexadecimal := re.match(r"\\x\{([0-9A-Fa-f]+)\}", text):
            self._at += hexadecimal.end()
            return re.escape(chr(int(hexadecimal[1], 16)))
        self._at += 2
        if following == "z":
            return r"\Z"
        if following in {"C", "Z"}:
            raise BadPattern(f"error parsing regexp: invalid escape sequence: `\\{following}`")
        return "\\" + following

    def _category(self, text: str, *, inside: bool) -> str:
        found = re.match(r"\\([pP])(?:\{(\^?)(\w+)\}|(\w))", text)
        if found is None:
            raise BadPattern(f"error parsing regexp: invalid character class range: `{text[:3]}`")
        self._at += found.end()
        name = found[3] or found[4]
        content = _CATEGORIES.get(name, "^\\W\\d_")
        negated = (found[1] == "P") != bool(found[2])
        if inside:
            return content.removeprefix("^\\W\\d_") or "A-Za-z\u00c0-\uffff"
        opened = content.removeprefix("^") if negated and content.startswith("^") else f"^{content}" if negated else content
        return f"(?u:[{opened}])"

    def _set(self) -> str:
        result = ["["]
        self._at += 1
        if self._text.startswith("^", self._at):
            result.append("^")
            self._at += 1
        if self._text.startswith("]", self._at):
            result.append(r"\]")
            self._at += 1
        while self._at < len(self._text):
            text = self._text[self._at :]
            if text[0] == "]":
                self._at += 1
                result.append("]")
                return "".join(result)
            if posix := re.match(r"\[:(\^?)(\w+):\]", text):
                if posix[2] not in _POSIX:
                    raise BadPattern(f"error parsing regexp: invalid character class range: `{posix[0]}`")
                result.append(_POSIX[posix[2]])
                self._at += posix.end()
            elif text[0] == "\\":
                result.append(self._escape(inside=True))
            else:
                result.append("\\" + text[0] if text[0] in "[&~|" else text[0])
                self._at += 1
        return "".join(result)
