"""How well starts were foretold: intervals are stretched by how far earlier ones of the same queue were off."""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

import numpy as np

__all__ = ["Calibration", "Interval", "Score"]

_KEPT: Final = 500
_JUDGED: Final = 200
_LEAST: Final = 20
_LEAST_HELD: Final = 0.6
_LEVELS: Final = (0.08, 0.5, 0.92)  # a little wider than 0.1 to 0.9: errors of Jobs that wait together are alike
_AT_FIRST: Final = (0.7, 1.0, 1.4)  # times the parts, while too few were judged
_SHORTEST: Final = 1.0  # seconds, so that logarithms are finite
_WIDEST: Final = 12.0  # of a logarithm: more is no estimate any more


@dataclass(frozen=True, slots=True)
class Interval:
    """Seconds from the moment it was made: the earliest (10 %), likely and latest (90 %) start."""

    earliest: float
    likely: float
    latest: float

    @property
    def parts(self) -> tuple[float, float, float]:
        """The three of them."""
        return self.earliest, self.likely, self.latest


@dataclass(frozen=True, slots=True)
class Score:
    """A prediction whose job has started: what the scenarios said, what was told, and what came, in seconds."""

    raw: Interval
    told: Interval
    actual: float

    @property
    def held(self) -> bool:
        """Whether it started within the interval."""
        return self.told.earliest <= self.actual <= self.told.latest


@dataclass(slots=True)
class Calibration:
    """The scores of the queues."""

    _scores: dict[str, deque[Score]] = field(default_factory=dict)
    _overdue: dict[str, list[Score]] = field(default_factory=dict)

    def add(self, queue: str, score: Score) -> None:
        """Another prediction can be judged."""
        self._scores.setdefault(queue, deque(maxlen=_KEPT)).append(score)

    def wait_for(self, overdue: Mapping[str, list[Score]]) -> None:
        """By queue the predictions whose interval is over though their jobs still wait; `actual` is how long they have waited.

        They count until their jobs start, and then as any other: otherwise a change shows only long after it came.
        """
        self._overdue = {queue: scores[-_JUDGED:] for queue, scores in overdue.items()}

    def keep(self, queues: Mapping[str, object]) -> None:
        """Forget queues that are gone."""
        for name in self._scores.keys() - queues.keys():
            del self._scores[name]

    def count(self, queue: str) -> int:
        """How many predictions of a queue were judged."""
        return len(self._scores.get(queue, ()))

    def held(self, queue: str) -> float | None:
        """Which part of the last predictions held; None where too few were judged."""
        scores = self._known(queue)[-_JUDGED:]
        return None if len(scores) < _LEAST else sum(score.held for score in scores) / len(scores)

    def width(self, queue: str) -> float:
        """How wide the last intervals of a queue were, in seconds; the median."""
        widths = [score.told.latest - score.told.earliest for score in list(self._scores.get(queue, ()))[-_JUDGED:]]
        return float(np.median(widths)) if widths else 0.0

    def is_trusted(self, queue: str) -> bool:
        """Whether estimates of a queue are worth telling."""
        held = self.held(queue)
        return held is None or held >= _LEAST_HELD

    def stretched(self, queue: str, raw: Interval) -> Interval:
        """The interval with each end moved by how far that end of earlier ones was off, as split conformal prediction does."""
        scores = self._known(queue)
        if len(scores) < _LEAST:
            earliest, likely, latest = (part * factor for part, factor in zip(raw.parts, _AT_FIRST, strict=True))
            return Interval(earliest, likely, latest)
        moved = []
        for at, level in enumerate(_LEVELS):
            errors = [_log(score.actual) - _log(score.raw.parts[at]) for score in scores]
            exact = level * (len(errors) + 1) / len(errors) if level > 0.5 else level
            error = float(np.clip(np.quantile(errors, min(1.0, exact)), -_WIDEST, _WIDEST))
            moved.append(max(_SHORTEST, raw.parts[at]) * float(np.exp(error)))
        earliest, likely, latest = sorted(moved)
        return Interval(earliest, likely, latest)

    def _known(self, queue: str) -> list[Score]:
        """The scores of a queue, those of jobs that still wait at the end."""
        return [*self._scores.get(queue, ()), *self._overdue.get(queue, ())]


def _log(seconds: float) -> float:
    return float(np.log(max(_SHORTEST, seconds)))
