"""The error of the command: one line with the object, the fault and the remedy."""

from __future__ import annotations


class CommandError(Exception):
    """Ends the command with exit status `status` and this message as the only line on standard error."""

    def __init__(self, message: str, *, status: int = 1) -> None:
        super().__init__(message)
        self.status = status
