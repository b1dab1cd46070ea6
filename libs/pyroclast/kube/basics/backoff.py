"""Exponential back-off with jitter: how long to wait before trying again."""

from __future__ import annotations

import random
from dataclasses import dataclass


@dataclass(slots=True)
class Backoff:
    """Delays that double from `first` to at most `most` seconds.

    Each delay is shortened by a random part of at most `jitter` of the delay, so that clients that failed together do not retry
    together.
    """

    first: float
    most: float
    jitter: float = 0.5
    failures: int = 0

    def next(self) -> float:
        """Return the seconds to wait after one more failure."""
        delay = min(self.first * 2.0 ** min(self.failures, 60), self.most)
        self.failures += 1
        return delay * (1.0 - self.jitter * random.random())  # noqa: S311 - not a secret

    def reset(self) -> None:
        """Set the number of failures to 0 after a success, so that the next delay is the first delay."""
        self.failures = 0
