"""The gaps between sessions, in which other threads may work: Python runs one thread at a time, and sessions go first."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

__all__ = ["SessionGaps"]

_PATIENCE_SECONDS: Final = 1.0  # for which others wait for a session to end


class SessionGaps:
    """Says whether a session decides."""

    def __init__(self) -> None:
        self._is_free = threading.Event()
        self._is_free.set()

    @contextmanager
    def session(self) -> Iterator[None]:
        """A session decides while the block lasts."""
        self._is_free.clear()
        try:
            yield
        finally:
            self._is_free.set()

    def wait(self) -> None:
        """Wait in a thread of its own until no session decides, for a second at most."""
        self._is_free.wait(_PATIENCE_SECONDS)
