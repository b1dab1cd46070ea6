"""Termination messages: what a container leaves for whoever asks how it ended, as the kubelet takes it."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Final

from pyroclast_standalone.nodes import records
from pyroclast_standalone.nodes.logs import LogLine

__all__ = ["message_of", "path_of"]

_DEFAULT_PATH: Final = "/dev/termination-log"
_FALLBACK: Final = "FallbackToLogsOnError"
_MOST_BYTES: Final = 4096
_MOST_LOG_BYTES: Final = 2048
_MOST_LOG_LINES: Final = 80


def path_of(container: records.Container) -> str:
    """Where the container finds the file for its message."""
    return container.termination_message_path or _DEFAULT_PATH


def message_of(container: records.Container, file: Path, exit_code: int, lines: Sequence[LogLine]) -> str:
    """The message in `file`; with the policy for it, the end of the log where a container failed and left none."""
    try:
        with file.open("rb") as opened:
            message = opened.read(_MOST_BYTES).decode(errors="replace")
    except FileNotFoundError:
        message = ""
    if message or exit_code == 0 or container.termination_message_policy != _FALLBACK:
        return message
    text = "".join(f"{line}\n" for _, line in lines[-_MOST_LOG_LINES:])
    return text.encode()[-_MOST_LOG_BYTES:].decode(errors="ignore")
