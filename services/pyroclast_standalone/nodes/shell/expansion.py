"""Expands words: quotes, parameters, arithmetic and command substitution. Then splits unquoted text into fields."""

from __future__ import annotations

import ast
import fnmatch
import operator
import re
from collections.abc import Callable, MutableMapping
from dataclasses import dataclass

from pyroclast_standalone.nodes.shell.lexer import NotUnderstood, skip

_PARAMETER = re.compile(r"\$(\w+|[?$#@*!-])")
_BRACED = re.compile(r"(#?)(\w+|[?$#@*])(?:(:?[-=+?]|%%|%|##|#)(.*))?", re.DOTALL)
_ARITHMETIC: dict[type[ast.operator], Callable[[int, int], int]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: operator.floordiv,
    ast.Mod: operator.mod,
}
_NAME = re.compile(r"\$?\b([A-Za-z_]\w*)")


@dataclass(frozen=True, slots=True)
class Expansion:
    """Expands words with these variables. `substitute` runs the script of `$(…)` and returns its output."""

    variables: MutableMapping[str, str]
    substitute: Callable[[str], str]

    def fields(self, words: tuple[str, ...]) -> list[str]:
        """Return the arguments that result from the words of a command."""
        return [field for word in words for field in self._split(word)]

    def text(self, word: str) -> str:
        """Return `word` as one text, as in an assignment."""
        return "".join(text for text, _ in self._pieces(word))

    def _split(self, word: str) -> list[str]:
        fields: list[str] = []
        current: str | None = None
        for text, splittable in self._pieces(word):
            if not splittable:
                current = (current or "") + text
                continue
            parts = text.split()
            if not parts or text[0].isspace():
                fields += [current] if current is not None else []
                current = None
            for part in parts[:-1]:
                fields.append((current or "") + part)
                current = None
            if parts:
                current = (current or "") + parts[-1]
                if text[-1].isspace():
                    fields.append(current)
                    current = None
        return fields if current is None else [*fields, current]

    def _pieces(self, word: str, *, quoted: bool = False) -> list[tuple[str, bool]]:
        """Return the text of `word` in pieces, each with a flag that it comes from an unquoted expansion and may be split."""
        pieces: list[tuple[str, bool]] = []
        at = 0
        while at < len(word):
            end = skip(word, at) if not (quoted and word[at] == "'") else at + 1
            part = word[at:end]
            if part[0] == "\\":
                kept = quoted and part[1:] not in ("$", '"', "\\", "`", "\n")
                pieces.append((part if kept else part[1:].replace("\n", ""), False))
            elif part[0] == "'" and not quoted:
                pieces.append((part[1:-1], False))
            elif part[0] == '"' and not quoted:
                pieces.append(("".join(text for text, _ in self._pieces(part[1:-1], quoted=True)), False))
            elif part[0] == "`":
                pieces.append((self.substitute(part[1:-1]).rstrip("\n"), not quoted))
            elif part.startswith("$((") and part.endswith("))"):
                pieces.append((str(self._arithmetic(part[3:-2])), not quoted))
            elif part.startswith("$("):
                pieces.append((self.substitute(part[2:-1]).rstrip("\n"), not quoted))
            elif part.startswith("${"):
                pieces.append((self._braced(part[2:-1]), not quoted))
            elif parameter := _PARAMETER.match(word, at):
                end = parameter.end()
                pieces.append((self.variables.get(parameter[1], ""), not quoted))
            else:
                pieces.append((part, False))
            at = end
        return pieces

    def _braced(self, inside: str) -> str:
        form = _BRACED.fullmatch(inside)
        if form is None:
            raise NotUnderstood(f"${{{inside}}}")
        value = self.variables.get(form[2])
        if form[1]:
            return str(len(value or ""))
        how, word = form[3] or "", form[4] or ""
        if how in ("%", "%%", "#", "##"):
            return _trimmed(value or "", how, self.text(word))
        is_set = bool(value) if how.startswith(":") else value is not None
        match how.removeprefix(":"):
            case "+":
                return self.text(word) if is_set else ""
            case "-" | "=" if not is_set:
                fallback = self.text(word)
                if how.endswith("="):
                    self.variables[form[2]] = fallback
                return fallback
            case _:
                return value or ""

    def _arithmetic(self, expression: str) -> int:
        named = _NAME.sub(lambda name: self.variables.get(name[1]) or "0", expression)
        try:
            return _evaluate(ast.parse(named.strip(), mode="eval").body)
        except (SyntaxError, ZeroDivisionError, ValueError) as error:
            raise NotUnderstood(f"$(({expression}))") from error


def _trimmed(value: str, how: str, pattern: str) -> str:
    """Return `value` without the prefix (#) or suffix (%) that matches `pattern`.

    With a doubled sign the longest match is removed.
    """
    lengths = range(len(value) + 1) if len(how) == 1 else range(len(value), -1, -1)
    for length in lengths:
        cut = len(value) - length if how[0] == "%" else length
        head, tail = value[:cut], value[cut:]
        if fnmatch.fnmatchcase(tail if how[0] == "%" else head, pattern):
            return head if how[0] == "%" else tail
    return value


def _evaluate(node: ast.expr) -> int:
    match node:
        case ast.Constant(value=int() as number):
            return number
        case ast.UnaryOp(op=ast.USub(), operand=operand):
            return -_evaluate(operand)
        case ast.BinOp(left=left, op=op, right=right) if type(op) in _ARITHMETIC:
            return _ARITHMETIC[type(op)](_evaluate(left), _evaluate(right))
        case _:
            raise ValueError(ast.dump(node))
