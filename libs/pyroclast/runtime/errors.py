"""The error with which the start of a service fails."""

from __future__ import annotations


class StartFailure(Exception):
    """A setting, file or address prevents the start. The text is one line that names it, the error, and the correct state.

    `status` is the exit status: 2 for an invalid setting, 1 for all other errors.
    """

    def __init__(self, message: str, *, status: int = 1) -> None:
        super().__init__(message)
        self.status = status
