"""Termination messages of containers, by the rules of the kubelet."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Final

from pyroclast_standalone.nodes import records
from pyroclast_standalone.nodes.logs import LogLine

_DEFAULT_PATH: Final = "/dev/termination-log"
_FALLBACK: Final = "FallbackToLogsOnError"
_MOST_BYTES: Final = 4096
_MOST_LOG_BYTES: Final = 2048
_MOST_LOG_LINES: Final = 80


def path_of(container: records.Container) -> str:
    """Return the path of the termination message inside the container."""
    return container.termination_message_path or _DEFAULT_PATH


def message_of(container: records.Container, file: Path, exit_code: int, lines: Sequence[LogLine]) -> str:
    """Return the message in `file`. If a failed container left none and its policy allows it, return the end of the log."""
    try:
        with file.open("rb") as opened:
            message = opened.read(_MOST_BYTES).decode(errors="replace")
    except FileNotFoundError:
        message = ""
    if message or exit_code == 0 or container.termination_message_policy != _FALLBACK:
        return message
    text = "".join(f"{line}\n" for _, line in lines[-_MOST_LOG_LINES:])
    return text.encode()[-_MOST_LOG_BYTES:].decode(errors="ignore")
