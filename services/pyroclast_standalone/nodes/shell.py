"""A small shell in virtual time: computes the output, duration and exit code of a command without running it.

It understands `sleep`, `exit`, `echo`, `true`, `false`, `test` of two texts, `export`, `exec`, `set -e`, `trap`, `sh -c`,
variables, `>`, and lists of commands with `;`, `&&`, `||` and line ends. Anything else needs a machine: it counts as a success
after some seconds, and the log says so. Nodes in process mode run it.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

SIGTERM_STATUS = 143  # 128 + SIGTERM
_SHELLS = frozenset({"sh", "bash", "ash", "dash"})
_SERVERS = frozenset({"nginx", "httpd", "redis-server", "pause", "mongod", "mysqld", "postgres", "serve_hostname", "http-server"})
_STAYING = {"sshd": "-D", "tail": "-f"}  # the flag with which a command does not end
_KEYWORDS = frozenset({"if", "for", "while", "until", "case", "select", "function", "[[", "{", "!"})
_TRAPS_OF_TERM = frozenset({"TERM", "SIGTERM", "15"})
_DURATION = re.compile(r"(\d+\.?\d*|\.\d+)([smhd]?)")
_UNITS = {"": 1.0, "s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0}
_MAX_FROM_VARIABLES = 2_000_000  # characters; a text that doubles itself more often never ends
_MAX_DEPTH = 40  # nested shells; people write no deeper scripts
_TOKEN = re.compile(
    r"""(?P<blank>[ \t\r]+|\\\n|(?<![^ \t\r\n;&|])\#[^\n]*)
    | (?P<connective>&&|\|\||;|\n)
    | (?P<redirect>[012]?(?:>>|>&|>|<(?!<))|&>)
    | (?P<word>(?:'[^']*' | "(?:\\.|[^"\\])*" | \\. | \$\{[^}]{0,250}\} | [^\s'"\\;&|<>()])+)""",
    re.VERBOSE | re.DOTALL,
)
_PIECE = re.compile(
    r"""'(?P<literal>[^']*)' | "(?P<quoted>(?:\\.|[^"\\])*)" | \\(?P<escaped>.)
    | \$(?P<name>\w+|[?$\#@*!-]) | \$\{(?P<braced>\w+|[?$\#])(?::?-(?P<fallback>[^}]{0,250}))?\} | (?P<other>.)""",
    re.VERBOSE | re.DOTALL,
)
_ASSIGNMENT = re.compile(r"([A-Za-z_]\w*)=(.*)", re.DOTALL)
_SPLIT = "\0"  # where an unquoted variable ends a word; the API admits no such character


@dataclass(frozen=True, slots=True)
class Stop:
    """The answer of a container to SIGTERM: it ends after `seconds` with `exit_code`."""

    seconds: float
    exit_code: int


TERMINATED = Stop(0.0, SIGTERM_STATUS)


@dataclass(frozen=True, slots=True)
class Run:
    """A simulated run. `lines` have the seconds after the start at which they are printed.

    `seconds` is the time until the end, None if the run lasts until it is stopped. `stop` is the answer to SIGTERM, None if the
    container ignores the signal.
    """

    lines: tuple[tuple[float, str], ...]
    seconds: float | None
    exit_code: int
    stop: Stop | None = TERMINATED


def simulate(argv: list[str], environment: Mapping[str, str], *, unknown_seconds: float = 1.0) -> Run:
    """Return the run of a container with this command line. An empty one is the image's own server, which never ends.

    `unknown_seconds`: the duration of a command that is not understood, which succeeds.
    """
    if not argv:
        return Run((), None, 0)
    shell = _Shell({**environment, "?": "0", "$": "1", "#": "0"}, unknown_seconds)
    seconds: float | None = None
    try:
        status = shell.command(argv)
        seconds = shell.clock
    except _Ended as end:
        status, seconds = end.status, shell.clock
    except _Forever:
        status = 0
    shell.flush()
    return Run(tuple(shell.lines), seconds, status, _stop(shell))


def _stop(shell: _Shell) -> Stop | None:
    """Return the answer to SIGTERM. A trap without `exit` counts as ignoring the signal, because the shell continues after it."""
    if shell.trap is None:
        return TERMINATED
    handler = _Shell(dict(shell.variables), shell.unknown_seconds)
    try:
        handler.script(shell.trap)
    except _Ended as end:
        return Stop(handler.clock, end.status)
    except _Forever:
        return None
    return None


class _Ended(Exception):
    """The shell exits with this status."""

    def __init__(self, status: int) -> None:
        super().__init__(status)
        self.status = status


class _Forever(Exception):
    """The command never ends by itself."""


class _NotUnderstood(ValueError):
    """The script uses something that is not simulated."""


@dataclass(slots=True)
class _Command:
    """A simple command after `connective`. `is_silent`: its output goes into a file. `is_tested`: its failure ends nothing."""

    connective: str
    words: list[str] = field(default_factory=list)
    is_silent: bool = False
    is_tested: bool = False


@dataclass(slots=True)
class _Shell:
    """The state of a shell. `clock`: the virtual seconds since the start."""

    variables: dict[str, str]
    unknown_seconds: float
    clock: float = 0.0
    trap: str | None = None
    lines: list[tuple[float, str]] = field(default_factory=list)
    exit_on_error: bool = False
    depth: int = 0
    _partial: str = ""
    _is_silent: bool = False
    _from_variables: int = 0

    def script(self, text: str) -> int:
        """Execute `text`, and return its status."""
        try:
            commands = _parsed(text)
        except _NotUnderstood as error:
            return self._pretend(f"this script uses {error}, which")
        status = 0
        for command in commands:
            if {"&&": status != 0, "||": status == 0}.get(command.connective, False):
                continue
            status = self._simple(command)
            self.variables["?"] = str(status)
            if status and self.exit_on_error and not command.is_tested:
                raise _Ended(status)
        return status

    def _simple(self, command: _Command) -> int:
        words = list(command.words)
        while words and (assignment := _ASSIGNMENT.fullmatch(words[0])):
            self.variables[assignment[1]] = "".join(self._expanded(assignment[2])).replace(_SPLIT, " ")
            words.pop(0)
        arguments = [argument for word in words for argument in self._fields(word)]
        if not arguments:
            return 0
        before, self._is_silent = self._is_silent, self._is_silent or command.is_silent
        try:
            return self.command(arguments)
        finally:
            self._is_silent = before

    def command(self, words: list[str]) -> int:  # noqa: C901, PLR0912 - a table of commands
        """Run one command with its arguments. Return its status."""
        name, arguments = words[0].rpartition("/")[2], words[1:]
        match name:
            case "sleep":
                return self._sleep(arguments)
            case "exit":
                given = arguments[0] if arguments else self.variables["?"]
                raise _Ended(int(given) & 255 if given.lstrip("-").isdigit() else 2)
            case "echo":
                flag = arguments[0] if arguments and re.fullmatch("-[neE]+", arguments[0]) else ""
                text = " ".join(arguments[1:] if flag else arguments)
                text = text.replace("\\n", "\n").replace("\\t", "\t") if "e" in flag else text
                self._print(text + ("" if "n" in flag else "\n"))
                return 0
            case ":" | "true" | "cd":
                return 0
            case "false":
                return 1
            case "test" | "[":
                return self._test(arguments[:-1] if name == "[" else arguments)
            case "export":
                for word in arguments:
                    variable, is_assigned, value = word.partition("=")
                    if is_assigned:
                        self.variables[variable] = value
                return 0
            case "set":
                self.exit_on_error = self.exit_on_error or any(re.fullmatch("-[a-z]*e[a-z]*", word) for word in arguments)
                return 0
            case "trap":
                self.trap = arguments[0] if _TRAPS_OF_TERM.intersection(arguments[1:]) else self.trap
                return 0
            case "exec" if arguments:
                raise _Ended(self.command(arguments))
            case _ if name in _SERVERS or _STAYING.get(name) in words:
                raise _Forever
            case _ if name in _SHELLS:
                return self._shell(arguments)
            case _:
                return self._pretend(name)

    def _shell(self, arguments: list[str]) -> int:
        """Simulate `sh -c SCRIPT`. The content of a script in the image is unknown. A shell without arguments ends at once."""
        flags, rest = "", list(arguments)
        while rest and rest[0].startswith("-"):
            flags += rest.pop(0)
        if "c" not in flags or not rest:
            return self._pretend("a script in the image") if rest else 0
        if self.depth == _MAX_DEPTH:
            return self._pretend("a shell in so many shells")
        before, self.exit_on_error = self.exit_on_error, "e" in flags
        self.variables.update({str(number): argument for number, argument in enumerate(rest[1:])})
        self.depth += 1
        try:
            return self.script(rest[0])
        except _Ended as end:
            return end.status
        finally:
            self.depth -= 1
            self.exit_on_error = before

    def _sleep(self, words: list[str]) -> int:
        total = 0.0
        for word in words:
            length = _DURATION.fullmatch(word)
            if length is None and word not in ("inf", "infinity"):
                self._print(f"sleep: invalid time interval '{word}'\n")
                return 1
            total += float(length[1]) * _UNITS[length[2]] if length else math.inf
        if math.isinf(total):
            raise _Forever
        self.clock += total
        return 0 if words else 1

    def _test(self, words: list[str]) -> int:
        match words:
            case [left, ("=" | "==" | "-eq"), right]:
                return int(left != right)
            case [left, ("!=" | "-ne"), right]:
                return int(left == right)
            case ["-z", text]:
                return int(bool(text))
            case ["-n", text] | [text]:
                return int(not text)
            case _:
                return self._pretend(f"test {' '.join(words)}")

    def _pretend(self, what: str) -> int:
        means = f"does not run here and counts as a success after {self.unknown_seconds:g} s; process mode runs it"
        self._print(f"simulated node: {what} {means}\n")
        self.clock += self.unknown_seconds
        return 0

    def _print(self, text: str) -> None:
        if not self._is_silent:
            *whole, self._partial = (self._partial + text).split("\n")
            self.lines += [(self.clock, line) for line in whole]

    def flush(self) -> None:
        """Turn unfinished output into a line."""
        if self._partial:
            self._print("\n")

    def _fields(self, word: str) -> list[str]:
        """Return the arguments that result from a word: an unquoted variable may be none or several."""
        fields = [text for text in "".join(self._expanded(word)).split(_SPLIT) if text]
        return fields or ([""] if "'" in word or '"' in word else [])

    def _expanded(self, word: str) -> Iterator[str]:
        for piece in _PIECE.finditer(word):
            match piece.lastgroup:
                case "literal" | "escaped" | "other":
                    yield piece[piece.lastgroup]
                case "quoted":
                    yield "".join(self._expanded_in_quotes(piece["quoted"]))
                case _:
                    yield re.sub(r"\s+", _SPLIT, self._value(piece))

    def _expanded_in_quotes(self, text: str) -> Iterator[str]:
        for piece in _PIECE.finditer(text.replace("'", "\\'")):
            if piece["escaped"] is not None:
                yield piece["escaped"] if piece["escaped"] in "$\"\\`'" else piece[0]
            else:
                yield self._value(piece) if piece["name"] or piece["braced"] else piece[0]

    def _value(self, piece: re.Match[str]) -> str:
        value = self.variables.get(piece["name"] or piece["braced"]) or piece["fallback"] or ""
        self._from_variables += len(value)
        if self._from_variables > _MAX_FROM_VARIABLES:
            raise _Forever
        return value


def _parsed(script: str) -> list[_Command]:
    """Return the commands of `script`. Raises _NotUnderstood: it uses more than lists of simple commands."""
    commands = [_Command(";")]
    at, is_target = 0, False  # `is_target`: the next word is the file of a redirection
    while at < len(script):
        token = _TOKEN.match(script, at)
        if script.startswith("$(", at):
            raise _NotUnderstood("the output of a command")
        if token is None:
            raise _NotUnderstood(repr(script[at]))
        at, text = token.end(), token[0]
        match token.lastgroup:
            case "connective":
                if commands[-1].words:
                    commands[-1].is_tested = text in ("&&", "||")
                    commands.append(_Command(text))
            case "redirect":
                is_target = True
                commands[-1].is_silent |= text[0] != "2" and not text.endswith(("&", "<"))
            case "word":
                expanded = _expandable(text)
                if "$(" in expanded or "`" in expanded or (text.endswith("$") and script.startswith("(", at)):
                    raise _NotUnderstood("the output of a command")
                if re.search(r"\$\{(?!\w+\}|\w+:?-|[?$#]\})", expanded):
                    raise _NotUnderstood(f"{text!r}")
                if not commands[-1].words and text in _KEYWORDS:
                    raise _NotUnderstood(f"{text!r}")
                if not is_target:
                    commands[-1].words.append(text)
                is_target = False
    return commands


def _expandable(word: str) -> str:
    """Return the parts of a word in which a shell looks for `$` and backquotes."""
    pieces = (piece[0] for piece in _PIECE.finditer(word) if piece.lastgroup not in ("literal", "escaped"))
    return "".join(re.sub(r"\\.", "", piece) for piece in pieces)
