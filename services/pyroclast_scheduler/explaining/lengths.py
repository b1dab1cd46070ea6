"""Run times of jobs as distributions: declared by users, or learned from similar jobs that ended, or unknown.

The data of this process take precedence over those of the recorder, which cover the last months. A distribution is a grid of
quantiles, from which scenarios draw.
"""

from __future__ import annotations

from collections import OrderedDict, deque
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Final

import numpy as np

from pyroclast.api.run_lengths import (
    LEAST_ENDS,
    LEAST_RATIOS,
    QUANTILES,
    Known,
    RunLengths,
    alike_keys,
    digest,
    of_one_pod,
    worth_key,
)
from pyroclast_scheduler.model.job_facts import JobFacts
from pyroclast_scheduler.model.node_columns import Floats
from pyroclast_scheduler.model.tasks import TaskStatus, readable_seconds

_PLACED = frozenset({TaskStatus.RUNNING, TaskStatus.BOUND, TaskStatus.BINDING, TaskStatus.RELEASING})
_GRACE = 1.0


def began(facts: JobFacts) -> float | None:
    """Return when the first pod of a running job started, in seconds since the epoch; None if none has started."""
    starts = (task.pod.status.start_time for task in facts.tasks if task.status in _PLACED)
    known = [seconds for text in starts if text and (seconds := readable_seconds(text)) is not None]
    return min(known, default=None)


def declared_end(facts: JobFacts, *, now: float) -> float | None:
    """Return when a running job ends by its declared run time, which doubles each time it is exceeded; None if unknown."""
    start, seconds = began(facts), facts.declared_seconds
    if start is None or seconds is None:
        return None
    while start + seconds + _GRACE < now:
        seconds *= 2
    return start + seconds


def likely_end(facts: JobFacts, usual: Callable[[JobFacts], float | None], *, now: float) -> tuple[float, str] | None:
    """Return when a running job ends, and the basis: its declared run time, or the run time of nine of ten similar jobs.

    None if neither is known, or if it runs longer than those similar jobs. `usual`: see `Lengths.usual_seconds`.
    """
    declared = declared_end(facts, now=now)
    if declared is not None:
        return declared, "declared"
    start, seconds = began(facts), usual(facts)
    if start is None or seconds is None or start + seconds <= now:
        return None
    return start + seconds, "history"


GRID: Final = 33
"""The number of quantiles of a distribution, at equal distances from the shortest to the longest run time."""

_LEVELS: Final = np.linspace(0.0, 1.0, GRID)
_RECORDED_LEVELS: Final = np.linspace(0.0, 1.0, QUANTILES)
_USUAL: Final = 0.9
_WIDE: Final[Floats] = 2.0 ** np.linspace(-1.0, 1.0, GRID)  # assumed ratios of real to declared run times without data
_MOST_OF_KEY: Final = 300
_MOST_KEYS: Final = 2000
_MEBIBYTE: Final = 2**20
UNKNOWN: Final[Floats] = np.full(GRID, np.inf)


@dataclass(frozen=True, slots=True)
class Basis:
    """The data behind a distribution. `kind`: `declared`, `history` or `unknown`. `count`: the number of jobs."""

    kind: str
    count: int = 0


@dataclass(slots=True)
class Lengths:
    """The run times of ended jobs, by the keys of similar jobs, and the ratios of real to declared run times, by owner.

    `recorded`: the same data from the recorder. Any thread may replace it as a whole.
    """

    recorded: RunLengths = field(default_factory=RunLengths)
    _ended: OrderedDict[str, deque[float]] = field(default_factory=OrderedDict)
    _ratios: OrderedDict[str, deque[float]] = field(default_factory=OrderedDict)
    _usual: dict[str, float] = field(default_factory=dict)

    def ended(self, facts: JobFacts, seconds: float) -> None:
        """Record that the job `facts` succeeded after a run time of `seconds`."""
        for key in keys_of(facts):
            for gone in _remember(self._ended, key, seconds):
                self._usual.pop(gone, None)
            if len(self._ended[key]) >= LEAST_ENDS:
                self._usual[key] = float(np.quantile(np.fromiter(self._ended[key], np.float64), _USUAL))
        said = facts.declared_seconds
        if said is not None:
            for owner in (_owner(facts), ""):
                _remember(self._ratios, owner, seconds / said)

    def of(self, facts: JobFacts, running: Sequence[float] = ()) -> tuple[Floats, Basis]:
        """Return the distribution of the total run time of a job. `running`: the times so far of similar jobs that still run."""
        said = facts.declared_seconds
        if said is not None:
            return said * self._worth(facts), Basis("declared", 1)
        recorded = self.recorded.seconds
        for key in keys_of(facts):
            ended = self._ended.get(key, ())
            if len(ended) >= LEAST_ENDS:
                return kaplan_meier(ended, running), Basis("history", len(ended))
            known = recorded.get(digest(key))
            if known is not None and known.count >= LEAST_ENDS:
                return _grid(known), Basis("history", known.count)
        return UNKNOWN, Basis("unknown")

    def usual_seconds(self, facts: JobFacts) -> float | None:
        """Return the run time that nine of ten similar jobs did not exceed; None if too few ended. Other threads may call it."""
        for key in keys_of(facts):
            if (found := self._usual.get(key)) is not None:
                return found
            known = self.recorded.seconds.get(digest(key))
            if known is not None and known.count >= LEAST_ENDS:
                return float(np.interp(_USUAL, _RECORDED_LEVELS, known.quantiles))
        return None

    def _worth(self, facts: JobFacts) -> Floats:
        for owner in (_owner(facts), ""):
            ratios = self._ratios.get(owner, ())
            if len(ratios) >= LEAST_RATIOS:
                return np.quantile(np.fromiter(ratios, np.float64, len(ratios)), _LEVELS)
            known = self.recorded.worth.get(digest(owner))
            if known is not None and known.count >= LEAST_RATIOS:
                return _grid(known)
        return _WIDE


def keys_of(facts: JobFacts) -> list[str]:
    """Return the keys by which jobs are similar, the most specific first: template or flow, name without number, shape."""
    asked = facts.group.spec.min_resources
    resources = _of_one_pod(facts) if asked is None else asked
    return alike_keys(facts.group.metadata, facts.namespace, facts.queue, facts.min_available, resources)


def kaplan_meier(ended: Iterable[float], running: Iterable[float]) -> Floats:
    """Return the quantiles of run times. Of the jobs that still run, only a lower bound is known."""
    known = list(ended)
    times, count = np.array([*known, *running], dtype=np.float64), len(known)
    is_end = np.arange(times.size) < count
    order = np.lexsort((~is_end, times))
    times, is_end = times[order], is_end[order]
    at_risk = np.arange(times.size, 0, -1)
    survival = np.cumprod(np.where(is_end, 1 - 1 / at_risk, 1.0))
    ends = times[is_end]
    fallen = 1 - survival[is_end]
    grid: Floats = np.interp(_LEVELS, np.concatenate([[0.0], fallen]), np.concatenate([ends[:1], ends]))
    return grid


def remaining(lengths: Floats, elapsed: float) -> Floats:
    """Return the grid of the remaining run time of a job. A job that outlives the grid is estimated from its elapsed time."""
    if not np.isfinite(lengths[0]):
        return lengths
    if elapsed >= lengths[-1]:
        return max(elapsed, 1.0) * (_WIDE - 0.5 + 0.05)
    passed = float(np.interp(elapsed, lengths, _LEVELS)) if elapsed > lengths[0] else 0.0
    return np.maximum(np.interp(passed + (1 - passed) * _LEVELS, _LEVELS, lengths) - elapsed, 0.0)


def _owner(facts: JobFacts) -> str:
    return worth_key(facts.group.metadata, facts.namespace)


def _of_one_pod(facts: JobFacts) -> dict[str, int]:
    oldest = min(facts.tasks, key=lambda task: (task.created, task.name), default=None)
    request = {} if oldest is None else oldest.shape.request
    return of_one_pod({name: -(-amount // _MEBIBYTE) if name == "memory" else amount for name, amount in request.items()})


def _grid(known: Known) -> Floats:
    return np.interp(_LEVELS, _RECORDED_LEVELS, known.quantiles)


def _remember(table: OrderedDict[str, deque[float]], key: str, value: float) -> list[str]:
    """Add a value. Return the keys that were dropped for it."""
    known = table.get(key)
    if known is None:
        known = table[key] = deque(maxlen=_MOST_OF_KEY)
    known.append(value)
    table.move_to_end(key)
    gone = []
    while len(table) > _MOST_KEYS:
        gone.append(table.popitem(last=False)[0])
    return gone
