"""Commands that control the shell itself or the virtual time."""

from __future__ import annotations

import math
import re

from pyroclast_standalone.nodes.shell.machine import Broken, Continued, Ended, Forever, Shell

_DURATION = re.compile(r"(\d+\.?\d*|\.\d+)([smhd]?)")
_UNITS = {"": 1.0, "s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0}
_SIGNALS = {"KILL": 9, "TERM": 15, "INT": 2, "HUP": 1}
_TIMED_OUT = 124


def seconds(text: str) -> float | None:
    """Return the seconds of `sleep TEXT`: `5`, `0.5`, `2m`, `infinity`. None if the text is invalid."""
    if text in ("inf", "infinity"):
        return math.inf
    length = _DURATION.fullmatch(text)
    return float(length[1]) * _UNITS[length[2]] if length else None


def sleep(shell: Shell, words: list[str], _: str) -> int:
    """Simulate `sleep LENGTH…`."""
    total = 0.0
    for word in words:
        length = seconds(word)
        if length is None:
            shell.print(f"sleep: invalid time interval '{word}'\n")
            return 1
        total += length
    if math.isinf(total):
        raise Forever
    shell.clock += total
    return 0 if words else 1


def timeout(shell: Shell, words: list[str], given: str) -> int:
    """Simulate `timeout LENGTH COMMAND`."""
    while words and words[0].startswith("-"):
        words = words[1:]
    limit = seconds(words[0]) if words else None
    if limit is None or len(words) < 2:
        return 125
    ends_at = shell.clock + limit
    try:
        status = shell.command(words[1:], given)
    except Forever:
        shell.clock, status = ends_at, _TIMED_OUT
    if shell.clock > ends_at:
        shell.clock, status = ends_at, _TIMED_OUT
    return status


def end(shell: Shell, words: list[str], _: str) -> int:
    """Simulate `exit [STATUS]`."""
    raise Ended(int(words[0]) & 255 if words and words[0].lstrip("-").isdigit() else shell.status)


def replace(shell: Shell, words: list[str], given: str) -> int:
    """Simulate `exec COMMAND`."""
    if not words:
        return 0
    raise Ended(shell.command(words, given))


def export(shell: Shell, words: list[str], _: str) -> int:
    """Simulate `export NAME=VALUE…`."""
    for word in words:
        name, assigned, value = word.partition("=")
        if assigned:
            shell.variables[name] = value
    return 0


def set_options(shell: Shell, words: list[str], _: str) -> int:
    """Simulate `set -e` and `set +e`. Other options have no effect here."""
    for word in words:
        if re.fullmatch(r"[-+][a-z]*e[a-z]*", word):
            shell.exit_on_error = word[0] == "-"
    return 0


def trap(shell: Shell, words: list[str], _: str) -> int:
    """Simulate `trap COMMANDS SIGNAL…`."""
    for signal in words[1:]:
        shell.traps[signal.removeprefix("SIG").replace("15", "TERM")] = words[0]
    return 0


def wait(shell: Shell, _words: list[str], _: str) -> int:
    """Wait for all background commands."""
    ends, shell.background = shell.background, []
    if any(map(math.isinf, ends)):
        raise Forever
    shell.clock = max([shell.clock, *ends])
    return 0


def kill(_shell: Shell, words: list[str], _: str) -> int:
    """Simulate `kill [-SIGNAL] TARGET`. The shell ends if it is the target. Other targets are ignored."""
    if words[-1:] not in (["0"], ["1"], ["$"]):  # its group or itself; $$ has become $ before a shell sees it
        return 0
    name = next((word.strip("-") for word in words if word.startswith("-")), "TERM").removeprefix("SIG")
    raise Ended(128 + (int(name) if name.isdigit() else _SIGNALS.get(name, 15)))


def break_loop(_shell: Shell, _words: list[str], _: str) -> int:
    """Simulate `break`."""
    raise Broken


def continue_loop(_shell: Shell, _words: list[str], _: str) -> int:
    """Simulate `continue`."""
    raise Continued


def succeed(_shell: Shell, _words: list[str], _: str) -> int:
    """Simulate `true`."""
    return 0


def fail(_shell: Shell, _words: list[str], _: str) -> int:
    """Simulate `false`."""
    return 1
