"""The statistics of many samples of the use of a pod. Pure."""

from __future__ import annotations

from typing import Any, Final

MOST: Final = 512
"""The most stored samples for the 95th percentile.

Each time this number is exceeded, every second stored sample is dropped, and half as many further samples are stored.
"""


class Fold:
    """The mean, 95th percentile and maximum of samples. `since`: the time of the first sample."""

    def __init__(self, since: int) -> None:
        self.since = since
        self.samples = 0
        self._total = self._largest = 0
        self._kept: list[int] = []
        self._stride = 1

    def add(self, value: int) -> None:
        """Add a sample."""
        if self.samples % self._stride == 0:
            self._kept.append(value)
            if len(self._kept) > MOST:
                self._kept = self._kept[::2]
                self._stride *= 2
        self.samples += 1
        self._total += value
        self._largest = max(self._largest, value)

    def row(self) -> dict[str, Any]:
        """Return the columns of `pod_use` with the statistics."""
        ordered = sorted(self._kept)
        return {
            "since": self.since,
            "samples": self.samples,
            "mean": self._total // max(1, self.samples),
            "p95": ordered[min(len(ordered) - 1, len(ordered) * 95 // 100)] if ordered else 0,
            "largest": self._largest,
        }
