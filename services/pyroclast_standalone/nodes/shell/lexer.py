"""Splits a shell script into words and operators. Words keep their quotes until they are expanded."""

from __future__ import annotations

import re
from dataclasses import dataclass


class NotUnderstood(ValueError):
    """The script uses an unsupported feature."""


@dataclass(frozen=True, slots=True)
class Token:
    """A word, or an operator (`is_operator`): `; & && || | ( ) < > >> >&` and the line end; `2>` for other streams."""

    text: str
    is_operator: bool = False


_OPERATORS = ("&&", "||", ";;", ">>", ">&", "<&", "&>", ";", "&", "|", "(", ")", "<", ">", "\n")
_BLANK = " \t\r"
_BREAKS = frozenset("; \t\r\n&|()<>")
_DESCRIPTOR = re.compile(r"(\d)(>>|>&|<&|>|<)")


def tokens(script: str) -> list[Token]:
    """Return the tokens of `script`, without comments.

    Raises:
        NotUnderstood: a quote is not closed, or the script has a here-document.
    """
    found: list[Token] = []
    at = 0
    while at < len(script):
        if script[at] in _BLANK:
            at += 1
        elif script.startswith("\\\n", at):
            at += 2
        elif script[at] == "#":
            end = script.find("\n", at)
            at = end if end >= 0 else len(script)
        elif script.startswith("<<", at):
            raise NotUnderstood("here-documents")
        elif operator := next((op for op in _OPERATORS if script.startswith(op, at)), None):
            found.append(Token(operator, is_operator=True))
            at += len(operator)
        elif numbered := _DESCRIPTOR.match(script, at):
            found.append(Token(numbered[2] if numbered[1] in "01" else "2" + numbered[2], is_operator=True))
            at = numbered.end()
        else:
            end = _word_end(script, at)
            found.append(Token(script[at:end]))
            at = end
    return found


def _word_end(script: str, at: int) -> int:
    while at < len(script) and script[at] not in _BREAKS:
        at = skip(script, at)
    return at


def skip(script: str, at: int) -> int:
    """Return the end of the quoted text, substitution or character at `at`."""
    match script[at]:
        case "\\":
            return min(at + 2, len(script))
        case "'":
            end = script.find("'", at + 1)
            if end < 0:
                raise NotUnderstood("a quote that is not closed")
            return end + 1
        case '"':
            return _until(script, at + 1, '"')
        case "`":
            return _until(script, at + 1, "`")
        case "$" if script.startswith("$(", at):
            return _until(script, at + 2, ")")
        case "$" if script.startswith("${", at):
            return _until(script, at + 2, "}")
        case _:
            return at + 1


def _until(script: str, at: int, closing: str) -> int:
    """Return the position after the `closing` character of a construct that began before `at`."""
    while at < len(script):
        if script[at] == closing:
            return at + 1
        if script[at] == "(" and closing == ")":
            at = _until(script, at + 1, ")")
        elif script[at] in "'#" and closing == '"':
            at += 1  # no quotes within double quotes
        else:
            at = skip(script, at)
    raise NotUnderstood(f"a {closing} that is missing")
