"""The line that `wait` shows on a terminal while a Job runs."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from typing import Any, Final, TextIO

from pyroclast_client.states import explanation_of, status_of

BOLD, PLAIN, CLEAR = "\x1b[1m", "\x1b[0m", "\r\x1b[K"
WIDTH: Final = 100


class ProgressLine:
    """One line that is overwritten with each change. Nothing is shown if the output is not a terminal."""

    def __init__(self, output: TextIO | None = None, environ: Mapping[str, str] = os.environ) -> None:
        self._output = sys.stderr if output is None else output
        self.is_shown = self._output.isatty()
        self._is_plain = bool(environ.get("NO_COLOR")) or environ.get("TERM") == "dumb"
        self._last = ""

    def show(self, job: Mapping[str, Any] | None) -> None:
        """Show the state of `job` in the line on the terminal."""
        if not self.is_shown or job is None:
            return
        name, text = job["metadata"]["name"], line_of(job)[:WIDTH]
        if text != self._last:
            self._last = text
            start = "\r" if self._is_plain else CLEAR
            shown = name if self._is_plain else f"{BOLD}{name}{PLAIN}"
            self._output.write(f"{start}{shown} {text:<{WIDTH if self._is_plain else 0}}")
            self._output.flush()

    def end(self) -> None:
        """End the line, so that its last state stays visible."""
        if self._last:
            self._output.write("\n")
            self._output.flush()


def line_of(job: Mapping[str, Any]) -> str:
    """Return the phase, the pod counts, and why the Job waits, in one line."""
    status = status_of(job)
    counts = (
        (status.pending, "pending"),
        (status.running, "running"),
        (status.succeeded, "succeeded"),
        (status.failed, "failed"),
    )
    pods = ", ".join(f"{number} {word}" for number, word in counts if number)
    waits = explanation_of(job) if status.phase == "Pending" else None
    why = f"{waits.code}: {waits.sentence}" if waits is not None and waits.code else ""
    return "; ".join(filter(None, (status.phase, pods, why))).replace("\n", " ")
