"""How long Jobs ran that are alike, as quantiles. Pure."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Final

from pyroclast.api.enums import JobPhase
from pyroclast.api.run_lengths import LEAST_ENDS, LEAST_RATIOS, QUANTILES, Known, RunLengths, digest
from pyroclast.resources import durations
from pyroclast_recorder.database.tables import Row

__all__ = ["kaplan_meier", "run_lengths"]

MOST_OF_KEY: Final = 300
"""The last ends of a key that count, so that it follows Jobs that change."""

ENDED: Final = frozenset({JobPhase.COMPLETED, JobPhase.FAILED})
"""Phases of Jobs that ended by themselves. Others were ended, and would have run longer than they did."""


@dataclass(slots=True)
class _Runs:
    """Runs of one key, the newest first: `ends` are lengths, `cut` tells of runs that are longer than that."""

    ends: list[float] = field(default_factory=list)
    cut: list[float] = field(default_factory=list)
    last_use: int = 0


def run_lengths(rows: Iterable[Row], now: int) -> RunLengths:
    """What is known of each key that has enough ends, those that were used last first.

    Args:
        rows: as `Database.runs` has them: Jobs that ended, newest first, and those that run.
        now: seconds since the epoch.
    """
    runs: dict[str, _Runs] = defaultdict(_Runs)
    worth: dict[str, _Runs] = defaultdict(_Runs)
    for row in rows:
        until = row["ended"] or row["removed"]
        length = float(max(1, (until or now) - row["started"]))
        is_end = row["phase"] in ENDED
        for key in (row["alike"] or "").split(","):
            _add(runs[key], length, until or now, is_end=is_end)
        declared = _declared(row["estimate"])
        if declared is not None and is_end:
            for owner in (row["owner"] or "", digest("")):
                _add(worth[owner], length / declared, until or now, is_end=True)
    return RunLengths(_known(runs, LEAST_ENDS), _known(worth, LEAST_RATIOS))


def kaplan_meier(ends: Sequence[float], cut: Sequence[float]) -> tuple[float, ...]:
    """Quantiles of lengths, of which some are only known to be longer than a time."""
    at_risk = len(ends) + len(cut)
    survival, steps = 1.0, [(0.0, min(ends))]
    for length, is_cut in sorted([*((each, False) for each in ends), *((each, True) for each in cut)]):
        if not is_cut:
            survival *= 1 - 1 / at_risk
            steps.append((1 - survival, length))
        at_risk -= 1
    found, place = [], 0
    for number in range(QUANTILES):
        level = number / (QUANTILES - 1)
        while place + 1 < len(steps) and steps[place + 1][0] < level:
            place += 1
        found.append(_between(steps[place], steps[min(place + 1, len(steps) - 1)], level))
    return tuple(found)


def _between(one: tuple[float, float], other: tuple[float, float], level: float) -> float:
    """The length at a level between two steps; the last one where nobody knows more."""
    if other[0] <= one[0]:
        return other[1]
    part = min(1.0, (level - one[0]) / (other[0] - one[0]))
    return one[1] + part * (other[1] - one[1])


def _add(runs: _Runs, length: float, at: int, *, is_end: bool) -> None:
    runs.last_use = max(runs.last_use, at)
    lengths = runs.ends if is_end else runs.cut
    if len(lengths) < MOST_OF_KEY:
        lengths.append(length)


def _known(runs: dict[str, _Runs], least: int) -> dict[str, Known]:
    enough = [(key, each) for key, each in runs.items() if key and len(each.ends) >= least]
    enough.sort(key=lambda found: (-found[1].last_use, found[0]))
    return {key: Known(len(each.ends), kaplan_meier(each.ends, each.cut)) for key, each in enough}


def _declared(text: str | None) -> float | None:
    try:
        seconds = durations.nanoseconds(text) / 1e9 if text else 0.0
    except durations.DurationError:
        return None
    return seconds if seconds > 0 else None
