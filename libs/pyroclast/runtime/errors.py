"""Why a service cannot start."""

from __future__ import annotations

__all__ = ["StartFailure"]


class StartFailure(Exception):
    """Something outside is not as it must be; the text is one line that names it, what is wrong, and what would be right.

    `status` is the exit status: 2 for a wrong setting, 1 for the rest.
    """

    def __init__(self, message: str, *, status: int = 1) -> None:
        super().__init__(message)
        self.status = status
