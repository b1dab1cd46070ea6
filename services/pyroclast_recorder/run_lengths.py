"""The run times of similar Jobs, as quantiles. Pure."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Final

from pyroclast.api.enums import JobPhase
from pyroclast.api.run_lengths import LEAST_ENDS, LEAST_RATIOS, QUANTILES, Known, RunLengths, digest
from pyroclast.resources import durations
from pyroclast_recorder.database.tables import Row

MOST_OF_KEY: Final = 300
"""The most ended Jobs of a key. Only the latest are used, so that the quantiles follow changes of the Jobs."""

ENDED: Final = frozenset({JobPhase.COMPLETED, JobPhase.FAILED})
"""The phases of Jobs that ended by themselves. Jobs in other phases were stopped and would have run longer."""


@dataclass(slots=True)
class _Runs:
    """The run times of one key in seconds, the newest first.

    `ends`: the run times of Jobs that ended by themselves. `cut`: the run times of running or stopped Jobs, whose full run time
    would be longer. `last_use`: the latest time at which a Job of the key ran, in seconds since the epoch.
    """

    ends: list[float] = field(default_factory=list)
    cut: list[float] = field(default_factory=list)
    last_use: int = 0


def run_lengths(rows: Iterable[Row], now: int) -> RunLengths:
    """Return the quantiles of each key with enough ended Jobs. The keys of the latest Jobs come first.

    Args:
        rows: the rows from `Database.runs`: ended Jobs, newest first, then running Jobs.
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
    """Return the quantiles of run times, estimated from `ends` and from `cut`, which are lower bounds of run times."""
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
    """Return the run time at `level`, interpolated between two steps; the run time of the last step beyond both."""
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
