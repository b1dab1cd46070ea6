"""What a container does from its start to its end, as far as its command tells."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from .commands import carry_out
from .lexer import NotUnderstood
from .machine import Ended, Forever, Shell

__all__ = ["TERMINATED", "Run", "Stop", "simulate"]

SIGTERM_STATUS = 143  # 128 + SIGTERM


@dataclass(frozen=True, slots=True)
class Stop:
    """How a container answers SIGTERM: after so many seconds it ends with that status."""

    seconds: float
    exit_code: int


TERMINATED = Stop(0.0, SIGTERM_STATUS)


@dataclass(frozen=True, slots=True)
class Run:
    """Lines with the seconds after the start at which they are printed; `seconds` until the end (None: it goes on until stopped).

    `stop` is the answer to SIGTERM; None ignores it.
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
    """The run of a container with this command line; an empty one is the image's own server, which goes on for ever.

    Args:
        argv: command and arguments, references to variables already expanded.
        environment: its variables.
        read_file: content of a file of its volumes.
        unknown_seconds: how long a command takes that the simulation does not know; it succeeds.
        now: the start, in seconds since the epoch.
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
    """A trap without `exit` only delays: the shell goes on after it, so it counts as ignoring the signal."""
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
