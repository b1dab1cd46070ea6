"""Executes a parsed script in virtual time. Records its output with times, and its end."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

from pyroclast_standalone.nodes.shell import syntax
from pyroclast_standalone.nodes.shell.expansion import Expansion

_MAX_STEPS = 2_000  # commands per script; a longer loop is treated as endless
_MAX_OUTPUT = 200_000  # characters


class Ended(Exception):
    """The shell exits with this status."""

    def __init__(self, status: int) -> None:
        super().__init__(status)
        self.status = status


class Forever(Exception):
    """The command never ends by itself."""


class Broken(Exception):
    """Exits a loop by `break`."""


class Continued(Exception):
    """Continues a loop by `continue`."""


@dataclass(slots=True)
class Shell:
    """The state of a shell.

    Attributes:
        variables: its variables.
        run_command: runs one command with its arguments and standard input, and returns the status.
        read_file: returns the content of a file that this script has not written. None if there is no such file.
        unknown_seconds: the duration of unknown commands.
        started_at: the start in seconds since the epoch.
        clock: the virtual seconds since the start.
        background: when each background command ends, by that clock. Infinity if it never ends.
    """

    variables: dict[str, str]
    run_command: Callable[[Shell, list[str], str], int]
    read_file: Callable[[str], str | None] = lambda _: None
    unknown_seconds: float = 1.0
    started_at: float = 0.0
    clock: float = 0.0
    status: int = 0
    exit_on_error: bool = False
    traps: dict[str, str] = field(default_factory=dict)
    files: dict[str, str] = field(default_factory=dict)
    lines: list[tuple[float, str]] = field(default_factory=list)
    background: list[float] = field(default_factory=list)
    _partial: str = ""
    _captured: list[list[str]] = field(default_factory=list)
    _steps: int = 0
    _printed: int = 0
    _tested: int = 0  # > 0 during a condition, in which a failure does not end the shell

    def script(self, text: str) -> None:
        """Parse and execute `text`."""
        self._script(syntax.parse(text))

    def print(self, text: str) -> None:
        """Write to standard output."""
        self._printed += len(text)
        if self._printed > _MAX_OUTPUT:
            return
        if self._captured:
            self._captured[-1].append(text)
            return
        *whole, self._partial = (self._partial + text).split("\n")
        self.lines += [(self.clock, line) for line in whole]

    def flush(self) -> None:
        """Turn unfinished output into a line."""
        if self._partial:
            self.lines.append((self.clock, self._partial))
            self._partial = ""

    def read(self, path: str) -> str | None:
        """Return the content of a file that this script wrote or that is in a volume. None if there is no such file."""
        written = self.files.get(path)
        return written if written is not None else self.read_file(path)

    @contextmanager
    def captured(self) -> Iterator[list[str]]:
        """Within the block, append the output of commands to the yielded list."""
        self._captured.append([])
        try:
            yield self._captured[-1]
        finally:
            self._captured.pop()

    def substitute(self, text: str) -> str:
        """Return the output of `text` as a script in a subshell."""
        variables = dict(self.variables)
        with self.captured() as printed:
            try:
                self.script(text)
            except Ended as end:
                self._set_status(end.status)
        self.variables.clear()
        self.variables.update(variables, **{"?": str(self.status)})
        return "".join(printed)

    def command(self, words: list[str], given: str = "") -> int:
        """Run one command with its arguments. Return its status."""
        self._steps += 1
        if self._steps > _MAX_STEPS:
            raise Forever
        return self.run_command(self, words, given)

    def _script(self, script: syntax.Script) -> None:
        for step, is_background in script.steps:
            if is_background:
                self._start_in_background(step)
            else:
                self._and_or(step)

    def _start_in_background(self, step: syntax.AndOr) -> None:
        started = self.clock
        try:
            self._and_or(step)
        except Ended:
            pass
        except Forever:
            self.background.append(float("inf"))
            self.clock = started
            return
        self.background.append(self.clock)
        self.clock = started
        self._set_status(0)

    def _and_or(self, step: syntax.AndOr) -> None:
        self._tested += bool(step.rest)
        self._pipeline(step.first)
        for index, (connective, pipeline) in enumerate(step.rest):
            if index == len(step.rest) - 1:
                self._tested -= 1
            if (connective == "&&") == (self.status == 0):
                self._pipeline(pipeline)

    def _pipeline(self, pipeline: syntax.Pipeline) -> None:
        given = ""
        self._tested += pipeline.negated
        for command in pipeline.commands[:-1]:
            with self.captured() as printed:
                self._node(command, given)
            given = "".join(printed)
        self._node(pipeline.commands[-1], given)
        self._tested -= pipeline.negated
        if pipeline.negated:
            self._set_status(int(self.status == 0))
        elif self.exit_on_error and self.status != 0 and not self._tested:
            raise Ended(self.status)

    def _node(self, node: syntax.Node, given: str) -> None:
        match node:
            case syntax.Simple():
                self._simple(node, given)
            case syntax.Group(body, subshell):
                self._group(body, is_subshell=subshell)
            case syntax.While(condition, body, until):
                self._while(condition, body, until=until)
            case syntax.For(name, words, body):
                for value in self._expansion().fields(words):
                    self.variables[name] = value
                    if not self._loop_body(body):
                        break
            case syntax.If(branches, otherwise):
                chosen = next((body for condition, body in branches if self._holds(condition)), otherwise)
                self._set_status(0)
                if chosen is not None:
                    self._script(chosen)

    def _group(self, body: syntax.Script, *, is_subshell: bool) -> None:
        if not is_subshell:
            self._script(body)
            return
        variables = dict(self.variables)
        try:
            self._script(body)
        except Ended as end:
            self._set_status(end.status)
        status = self.status
        self.variables.clear()
        self.variables.update(variables)
        self._set_status(status)

    def _while(self, condition: syntax.Script, body: syntax.Script, *, until: bool) -> None:
        while self._holds(condition) is not until:
            self._steps += 1
            if not self._loop_body(body):
                return
        self._set_status(0)

    def _loop_body(self, body: syntax.Script) -> bool:
        """Run the body of a loop once. Return whether the loop continues."""
        try:
            self._script(body)
        except Broken:
            return False
        except Continued:
            pass
        return True

    def _holds(self, condition: syntax.Script) -> bool:
        self._tested += 1
        self._script(condition)
        self._tested -= 1
        return self.status == 0

    def _simple(self, command: syntax.Simple, given: str) -> None:
        expansion = self._expansion()
        for name, word in command.assignments:
            self.variables[name] = value = expansion.text(word)
            if len(value) > _MAX_OUTPUT:
                raise Forever
        words = expansion.fields(command.words)
        if not words:
            self._set_status(0 if not any("$(" in word or "`" in word for _, word in command.assignments) else self.status)
            return
        sink = None
        for direction, word in command.redirects:
            target = expansion.text(word)
            if direction == "<":
                given = self.read(target) or ""
            elif direction in (">", ">>", "&>"):
                sink = target
                if direction != ">>":
                    self.files[target] = ""
        if sink is None:
            self._set_status(self.command(words, given))
            return
        with self.captured() as printed:
            self._set_status(self.command(words, given))
        self.files[sink] = (self.files.get(sink) or "") + "".join(printed)

    def _expansion(self) -> Expansion:
        return Expansion(self.variables, self.substitute)

    def _set_status(self, status: int) -> None:
        self.status = status
        self.variables["?"] = str(status)
