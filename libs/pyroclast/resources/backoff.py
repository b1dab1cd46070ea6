"""Exponential backoff: the pause before each further try.

It stands below all walls, because the pure decisions and the shells retry by the same rule. The random source of the jitter is
therefore a parameter.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

_MOST_DOUBLINGS: Final = 60  # any pause has reached its limit by then; a larger power overflows after 1,023 failures


def _none() -> float:
    return 0.0


@dataclass(slots=True)
class Backoff:
    """Pauses that double from `first` to at most `most` seconds.

    `jitter` returns the share of a pause to leave out, so that clients that failed together do not retry together.
    """

    first: float
    most: float
    jitter: Callable[[], float] = _none
    failures: int = 0

    def after(self, failures: int) -> float:
        """Return the pause, without jitter, after so many earlier failures; 0 earlier failures give the first pause."""
        return min(self.first * 2.0 ** min(failures, _MOST_DOUBLINGS), self.most)

    def next(self) -> float:
        """Count one more failure and return the pause after it."""
        pause = self.after(self.failures)
        self.failures += 1
        return pause * (1.0 - self.jitter())

    def reset(self) -> None:
        """Start again at the first pause, after a success."""
        self.failures = 0
