"""What the command reports to its user: one line that names the thing, what is wrong and what would be right."""

from __future__ import annotations

__all__ = ["CommandError"]


class CommandError(Exception):
    """Ends the command with exit status `status` and this text as its one line on standard error."""

    def __init__(self, message: str, *, status: int = 1) -> None:
        super().__init__(message)
        self.status = status
