"""The time between sessions, in which other threads may work. Python runs one thread at a time, and sessions have priority."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

_PATIENCE_SECONDS: Final = 1.0  # how long other threads wait for the end of a session


class SessionGaps:
    """Knows whether a session is running."""

    def __init__(self) -> None:
        self._is_free = threading.Event()
        self._is_free.set()

    @contextmanager
    def session(self) -> Iterator[None]:
        """Mark the session as running within the block."""
        self._is_free.clear()
        try:
            yield
        finally:
            self._is_free.set()

    def wait(self) -> None:
        """Wait until no session is running, for a second at most. Must be called in another thread than the event loop's."""
        self._is_free.wait(_PATIENCE_SECONDS)
