"""The simulated run of a container from its start to its end, as far as its command determines it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from pyroclast_standalone.nodes.shell.commands import carry_out
from pyroclast_standalone.nodes.shell.lexer import NotUnderstood
from pyroclast_standalone.nodes.shell.machine import Ended, Forever, Shell

SIGTERM_STATUS = 143  # 128 + SIGTERM


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


def simulate(
    argv: list[str],
    environment: Mapping[str, str],
    *,
    read_file: Callable[[str], str | None] = lambda _: None,
    unknown_seconds: float = 1.0,
    now: float = 0.0,
) -> Run:
    """Return the run of a container with this command line. An empty one is the image's own server, which never ends.

    Args:
        argv: command and arguments with expanded references to variables.
        environment: the variables of the container.
        read_file: returns the content of a file in its volumes.
        unknown_seconds: the duration of an unknown command, which succeeds.
        now: the start in seconds since the epoch.
    """
    if not argv:
        return Run((), None, 0)
    variables = {**environment, "?": "0", "$": "1", "#": "0"}
    shell = Shell(variables, carry_out, read_file, unknown_seconds, now)
    seconds: float | None = None
    try:
        status = shell.command(argv)
        seconds = shell.clock
    except Ended as end:
        status, seconds = end.status, shell.clock
    except Forever:
        status = 0
    except NotUnderstood as error:
        shell.print(f"simulated node: this script uses {error}, which is not simulated; it succeeds\n")
        status, seconds = 0, shell.clock + unknown_seconds
    shell.flush()
    return Run(tuple(shell.lines), seconds, status, _stop(shell))


def _stop(shell: Shell) -> Stop | None:
    """Return the answer to SIGTERM. A trap without `exit` counts as ignoring the signal, because the shell continues after it."""
    trap = shell.traps.get("TERM")
    if trap is None:
        return TERMINATED
    handler = Shell(dict(shell.variables), shell.run_command, shell.read_file)
    try:
        handler.script(trap)
    except Ended as end:
        return Stop(handler.clock, end.status)
    except (Forever, NotUnderstood):
        return None
    return None
