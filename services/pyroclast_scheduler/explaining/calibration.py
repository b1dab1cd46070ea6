"""Calibration of estimated starts: intervals are stretched by the errors of earlier estimates of the same queue."""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

import numpy as np

_KEPT: Final = 500
_JUDGED: Final = 200
_LEAST: Final = 20
_LEAST_JUDGED: Final = 5  # scored or overdue estimates from which a rate counts
_LEVELS: Final = (0.08, 0.5, 0.92)  # wider than 0.1 to 0.9, since the errors of Jobs that wait together are correlated
_AT_FIRST: Final = (0.7, 1.0, 1.4)  # factors for the interval while too few estimates were scored
_SHORTEST: Final = 1.0  # seconds, so that logarithms are finite
_WIDEST: Final = 12.0  # the largest correction of a logarithm: a larger one is useless as an estimate


@dataclass(frozen=True, slots=True)
class Interval:
    """The earliest (10 %), likely and latest (90 %) start, in seconds after the estimate was made."""

    earliest: float
    likely: float
    latest: float

    @property
    def parts(self) -> tuple[float, float, float]:
        """The earliest, likely and latest start."""
        return self.earliest, self.likely, self.latest


@dataclass(frozen=True, slots=True)
class Score:
    """An estimate whose job has started, in seconds: the interval of the scenarios, the calibrated one, and the real start."""

    raw: Interval
    told: Interval
    actual: float

    @property
    def held(self) -> bool:
        """Whether the job started within the calibrated interval."""
        return self.told.earliest <= self.actual <= self.told.latest


@dataclass(slots=True)
class Calibration:
    """The scores of all queues."""

    _scores: dict[str, deque[Score]] = field(default_factory=dict)
    _overdue: dict[str, list[Score]] = field(default_factory=dict)

    def add(self, queue: str, score: Score) -> None:
        """Add the score of an estimate whose job has started."""
        self._scores.setdefault(queue, deque(maxlen=_KEPT)).append(score)

    def wait_for(self, overdue: Mapping[str, list[Score]]) -> None:
        """Set the overdue estimates by queue. The interval of an overdue estimate is over, but its job still waits.

        In these scores, `actual` is the wait so far. Overdue estimates count before their jobs start, since a change of the load
        would otherwise affect the estimates much too late.
        """
        self._overdue = {queue: scores[-_JUDGED:] for queue, scores in overdue.items()}

    def keep(self, queues: Mapping[str, object]) -> None:
        """Remove the queues that do not exist any more."""
        for name in self._scores.keys() - queues.keys():
            del self._scores[name]

    def count(self, queue: str) -> int:
        """Return the number of scored estimates of a queue."""
        return len(self._scores.get(queue, ()))

    def held(self, queue: str) -> float | None:
        """Return the fraction of the last estimates that were right; None if too few estimates were scored."""
        scores = self._known(queue)[-_JUDGED:]
        return None if len(scores) < _LEAST else sum(score.held for score in scores) / len(scores)

    def width(self, queue: str) -> float:
        """Return the median width of the last estimated intervals of a queue, in seconds."""
        widths = [score.told.latest - score.told.earliest for score in list(self._scores.get(queue, ()))[-_JUDGED:]]
        return float(np.median(widths)) if widths else 0.0

    def judged(self, queue: str) -> tuple[int, int]:
        """Return how many of the last estimates of a queue held, and of how many; overdue ones count as wrong."""
        scores = self._known(queue)[-_JUDGED:]
        return sum(score.held for score in scores), len(scores)

    def is_trusted(self, queue: str, least: float) -> bool:
        """Whether at least the fraction `least` of the last estimates of a queue held, or too few are known to tell."""
        held, count = self.judged(queue)
        return count < _LEAST_JUDGED or held >= least * count

    def stretched(self, queue: str, raw: Interval) -> Interval:
        """Return the interval with each end moved by the errors of this end in earlier estimates.

        The method is that of split conformal prediction.
        """
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
        """Return the scores of a queue, with overdue estimates at the end."""
        return [*self._scores.get(queue, ()), *self._overdue.get(queue, ())]


def _log(seconds: float) -> float:
    return float(np.log(max(_SHORTEST, seconds)))
