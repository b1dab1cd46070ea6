"""The syntax tree of a script, and its parser."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TypeAlias

from pyroclast_standalone.nodes.shell.lexer import NotUnderstood, Token, tokens


@dataclass(frozen=True, slots=True)
class Simple:
    """A simple command: its assignments and words. `redirects` are pairs of operator and target word."""

    assignments: tuple[tuple[str, str], ...]
    words: tuple[str, ...]
    redirects: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True, slots=True)
class Script:
    """A list of commands, each with a flag whether it runs in the background."""

    steps: tuple[tuple[AndOr, bool], ...]


@dataclass(frozen=True, slots=True)
class AndOr:
    """A pipeline and those that follow it, each with `&&` or `||`."""

    first: Pipeline
    rest: tuple[tuple[str, Pipeline], ...] = ()


@dataclass(frozen=True, slots=True)
class Pipeline:
    """Commands connected by pipes. `negated` means a leading `!`."""

    commands: tuple[Node, ...]
    negated: bool = False


@dataclass(frozen=True, slots=True)
class While:
    """A `while` loop, or an `until` loop, which negates its condition."""

    condition: Script
    body: Script
    until: bool = False


@dataclass(frozen=True, slots=True)
class For:
    """A `for` loop over words."""

    name: str
    words: tuple[str, ...]
    body: Script


@dataclass(frozen=True, slots=True)
class If:
    """An `if`: pairs of condition and body, and the body for the case that no condition is true."""

    branches: tuple[tuple[Script, Script], ...]
    otherwise: Script | None = None


@dataclass(frozen=True, slots=True)
class Group:
    """A group of commands, `{ … }`, or a subshell, `( … )`."""

    body: Script
    subshell: bool


Node: TypeAlias = Simple | While | For | If | Group

_ASSIGNMENT = re.compile(r"([A-Za-z_]\w*)=(.*)", re.DOTALL)
_REDIRECTS = frozenset({"<", ">", ">>", ">&", "<&", "&>", "2<", "2>", "2>>", "2>&", "2<&"})
_ENDS = frozenset({"then", "do", "done", "fi", "else", "elif", "}"})
_UNKNOWN = frozenset({"case", "function", "select", "[["})
_MAX_DEPTH = 40  # nested commands; people write no deeper scripts


def parse(script: str) -> Script:
    """Parse `script`.

    Raises:
        NotUnderstood: the script uses more than lists, pipes, loops, conditions, groups and redirections.
    """
    parser = _Parser(tokens(script))
    parsed = parser.script()
    if parser.peek() is not None:
        raise NotUnderstood(f"an unexpected {parser.peek()!r}")
    return parsed


class _Parser:
    def __init__(self, found: list[Token]) -> None:
        self._tokens, self._at, self._depth = found, 0, 0

    def peek(self) -> str | None:
        return self._tokens[self._at].text if self._at < len(self._tokens) else None

    def _is_operator(self, *operators: str) -> bool:
        return self._at < len(self._tokens) and self._tokens[self._at].is_operator and self.peek() in operators

    def _is_word(self, *words: str) -> bool:
        return self._at < len(self._tokens) and not self._tokens[self._at].is_operator and (not words or self.peek() in words)

    def _next(self) -> str:
        text = self.peek()
        if text is None:
            raise NotUnderstood("an unexpected end")
        self._at += 1
        return text

    def _expect(self, word: str) -> None:
        if self.peek() != word:
            raise NotUnderstood(f"{self.peek()!r} where {word!r} should be")
        self._at += 1

    def _skip_newlines(self) -> None:
        while self._is_operator("\n"):
            self._at += 1

    def script(self) -> Script:
        self._depth += 1
        if self._depth > _MAX_DEPTH:
            raise NotUnderstood("commands nested too deep")
        steps: list[tuple[AndOr, bool]] = []
        while True:
            while self._is_operator("\n", ";"):
                self._at += 1
            if self.peek() is None or self._is_word(*_ENDS) or self._is_operator(")"):
                break
            step = self._and_or()
            background = self._is_operator("&")
            if background:
                self._at += 1
            elif not (self.peek() is None or self._is_operator(";", "\n", ")") or self._is_word(*_ENDS)):
                raise NotUnderstood(f"an unexpected {self.peek()!r}")
            steps.append((step, background))
        self._depth -= 1
        return Script(tuple(steps))

    def _and_or(self) -> AndOr:
        first = self._pipeline()
        rest: list[tuple[str, Pipeline]] = []
        while self._is_operator("&&", "||"):
            operator = self._next()
            self._skip_newlines()
            rest.append((operator, self._pipeline()))
        return AndOr(first, tuple(rest))

    def _pipeline(self) -> Pipeline:
        negated = self._is_word("!")
        if negated:
            self._at += 1
        commands = [self._command()]
        while self._is_operator("|"):
            self._at += 1
            self._skip_newlines()
            commands.append(self._command())
        return Pipeline(tuple(commands), negated)

    def _command(self) -> Node:
        if self._is_operator("("):
            self._at += 1
            body = self.script()
            self._expect(")")
            return self._redirected(Group(body, subshell=True))
        if not self._is_word():
            raise NotUnderstood(f"an unexpected {self.peek()!r}")
        match self.peek():
            case "{":
                self._at += 1
                body = self.script()
                self._expect("}")
                return self._redirected(Group(body, subshell=False))
            case "while" | "until":
                return self._redirected(self._while())
            case "for":
                return self._redirected(self._for())
            case "if":
                return self._redirected(self._if())
            case word if word in _UNKNOWN:
                raise NotUnderstood(f"{word!r}")
            case _:
                return self._simple()

    def _redirected(self, node: Node) -> Node:
        """Return `node`. Redirections after it are ignored."""
        while self._is_operator(*_REDIRECTS):
            self._at += 2
        return node

    def _while(self) -> While:
        until = self._next() == "until"
        condition = self.script()
        self._expect("do")
        body = self.script()
        self._expect("done")
        return While(condition, body, until)

    def _for(self) -> For:
        self._at += 1
        name = self._next()
        words: list[str] = []
        self._expect("in")
        while self._is_word():
            words.append(self._next())
        while self._is_operator(";", "\n"):
            self._at += 1
        self._expect("do")
        body = self.script()
        self._expect("done")
        return For(name, tuple(words), body)

    def _if(self) -> If:
        branches: list[tuple[Script, Script]] = []
        otherwise: Script | None = None
        while self._next() in ("if", "elif"):
            condition = self.script()
            self._expect("then")
            branches.append((condition, self.script()))
            if self.peek() == "else":
                self._at += 1
                otherwise = self.script()
            if self.peek() == "fi":
                self._at += 1
                break
        return If(tuple(branches), otherwise)

    def _simple(self) -> Simple:
        assignments: list[tuple[str, str]] = []
        words: list[str] = []
        redirects: list[tuple[str, str]] = []
        while True:
            if self._is_operator(*_REDIRECTS):
                operator = self._next()
                redirects.append((operator, self._next()))
            elif self._is_word():
                word = self._next()
                assignment = _ASSIGNMENT.fullmatch(word) if not words else None
                if assignment:
                    assignments.append((assignment[1], assignment[2]))
                else:
                    words.append(word)
            elif self._is_operator("(") and words:
                raise NotUnderstood("functions")
            else:
                return Simple(tuple(assignments), tuple(words), tuple(redirects))
