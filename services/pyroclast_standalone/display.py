"""The output of `pyroclast run`: progress with the time since the start, and trees with their branches."""

from __future__ import annotations

import shutil
import sys
import time
from collections.abc import Callable, Iterator
from typing import TextIO

from pyroclast_standalone.following import Progress

QUIET_SECONDS = 1.0
INDENT = " " * 10  # below the name, which follows the time


class Display:
    """Prints progress lines with the time since the start.

    On a terminal each change is shown, and the lines of an object are overwritten while its phase stays. Elsewhere, lines are
    printed for each change of a phase, and for other changes at most once in `QUIET_SECONDS`. Of a tree, the changed branches are
    printed, and all branches at its end.
    """

    def __init__(self, out: TextIO = sys.stdout, clock: Callable[[], float] = time.monotonic) -> None:
        self._out = out
        self._clock = clock
        self._is_terminal = out.isatty()
        self._start = clock()
        self._open: tuple[str, int] | None = None  # name and number of the lines that may be overwritten
        self._shown: dict[str, tuple[float, Progress]] = {}

    def say(self, text: str) -> None:
        """Print a permanent line."""
        self._close()
        print(text, file=self._out, flush=True)

    def show(self, name: str, now: Progress) -> bool:
        """Show the progress of an object if it has changed. Return False when the output is delayed."""
        at, before = self._shown.get(name, (-QUIET_SECONDS, None))
        elapsed = self._clock() - self._start
        if now == before:
            return True
        same_phases = before is not None and _phases(before) == _phases(now)
        if same_phases and not self._is_terminal and elapsed - at < QUIET_SECONDS:
            return False
        self._shown[name] = (elapsed, now)
        first = f"{elapsed:6.1f} s  {name}  {now}"
        if self._is_terminal:
            self._rewrite(name, [first, *tree_lines(now)], is_same_phase=before is not None and before.phase == now.phase)
            return True
        known = set(tree_lines(before)) if before is not None and not now.is_finished else set()
        print("\n".join([first, *(line for line in tree_lines(now) if line not in known)]), file=self._out, flush=True)
        return True

    def _rewrite(self, name: str, lines: list[str], *, is_same_phase: bool) -> None:
        columns, height = shutil.get_terminal_size()
        lines = [line[: columns - 1] for line in lines]  # a wrapped line could not be overwritten
        if self._open is not None and self._open[0] == name and is_same_phase and self._open[1] < height:
            up = self._open[1] - 1
            print("\r" + (f"\033[{up}A" if up else "") + "\033[J", end="", file=self._out)
        else:
            self._close()
        print("\n".join(lines), end="", file=self._out, flush=True)
        self._open = (name, len(lines))

    def _close(self) -> None:
        if self._open is not None:
            print(file=self._out, flush=True)
            self._open = None


def tree_lines(progress: Progress) -> list[str]:
    """Return an indented line for each branch and its branches, with aligned phases."""
    rows = list(_rows(progress, ""))
    width = max((len(label) for label, _ in rows), default=0)
    return [f"{INDENT}{label:<{width}}  {branch}" for label, branch in rows]


def _rows(progress: Progress, margin: str) -> Iterator[tuple[str, Progress]]:
    for position, (name, branch) in enumerate(progress.branches, 1):
        is_last = position == len(progress.branches)
        yield f"{margin}{'└─' if is_last else '├─'} {name}", branch
        yield from _rows(branch, margin + ("   " if is_last else "│  "))


def _phases(progress: Progress) -> tuple[object, ...]:
    return (progress.phase, *((name, _phases(branch)) for name, branch in progress.branches))
