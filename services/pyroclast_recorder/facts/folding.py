"""Many samples of what a pod uses as a few numbers. Pure."""

from __future__ import annotations

from typing import Any, Final

__all__ = ["Fold"]

MOST: Final = 512
"""Samples that are kept for the 95th percentile; beyond that every second one is dropped, and so on."""


class Fold:
    """Mean, 95th percentile and maximum of samples that come one by one. `since`: when the first one came."""

    def __init__(self, since: int) -> None:
        self.since = since
        self.samples = 0
        self._total = self._largest = 0
        self._kept: list[int] = []
        self._stride = 1

    def add(self, value: int) -> None:
        """Take a sample."""
        if self.samples % self._stride == 0:
            self._kept.append(value)
            if len(self._kept) > MOST:
                self._kept = self._kept[::2]
                self._stride *= 2
        self.samples += 1
        self._total += value
        self._largest = max(self._largest, value)

    def row(self) -> dict[str, Any]:
        """The columns that it fills."""
        ordered = sorted(self._kept)
        return {
            "since": self.since,
            "samples": self.samples,
            "mean": self._total // max(1, self.samples),
            "p95": ordered[min(len(ordered) - 1, len(ordered) * 95 // 100)] if ordered else 0,
            "largest": self._largest,
        }
