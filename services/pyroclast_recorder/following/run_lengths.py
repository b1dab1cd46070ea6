"""The run times of past Jobs, and the writer of the ConfigMap with them, which the scheduler reads."""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

import structlog

from pyroclast.api.enums import JobPhase
from pyroclast.api.run_lengths import (
    CONFIG_MAP,
    DATA_KEY,
    LEAST_ENDS,
    LEAST_RATIOS,
    QUANTILES,
    Known,
    RunLengths,
    digest,
    written_run_lengths,
)
from pyroclast.api.types import CONFIG_MAPS, Key
from pyroclast.kube.basics.errors import KubeError, NotFound
from pyroclast.kube.http.client import Client, PatchKind
from pyroclast.resources import durations
from pyroclast_recorder.database.connections import DatabaseUnavailable
from pyroclast_recorder.database.database import Database
from pyroclast_recorder.database.tables import Row

log = structlog.get_logger()


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

    `rows`: the rows from `Database.runs`: ended Jobs, newest first, then running Jobs.
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


PERIOD_SECONDS: Final = 300.0
WINDOW_SECONDS: Final = 90 * 86_400
MOST_RUNS: Final = 50_000
"""The most ended Jobs that are evaluated, the latest first. The evaluation uses about a second of one core, in a thread."""


class RunLengthsWriter:
    """Writes the run times at most every five minutes, and only when they have changed."""

    def __init__(self, client: Client, database: Database, namespace: str) -> None:
        self._client, self._database = client, database
        self._key = Key(namespace, CONFIG_MAP)
        self._written: str | None = None
        self._complaint = ""

    async def run(self) -> None:
        """Write the run times at intervals, until cancelled."""
        while True:
            try:
                await self.write()
            except (KubeError, DatabaseUnavailable) as error:
                if str(error) != self._complaint:
                    self._complaint = str(error)
                    log.warning("recorder.run_lengths_not_written", error=self._complaint)
                self._written = None
            await asyncio.sleep(PERIOD_SECONDS)

    async def write(self) -> bool:
        """Write the run times if they have changed; return whether they had."""
        now = int(self._client.now())
        runs = await self._database.runs(now - WINDOW_SECONDS, MOST_RUNS)
        text = await asyncio.to_thread(lambda: written_run_lengths(run_lengths(runs, now)))
        if self._written is None:
            self._written = await self._there()
        if text == self._written:
            return False
        body: dict[str, Any] = {"data": {DATA_KEY: text}}
        try:
            await self._client.patch(CONFIG_MAPS, self._key, body, PatchKind.MERGE)
        except NotFound:
            whole = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": CONFIG_MAP, "namespace": self._key.namespace}}
            await self._client.create(CONFIG_MAPS, whole | body)
        self._written, self._complaint = text, ""
        return True

    async def _there(self) -> str:
        """Return the run times in the existing ConfigMap; empty when there are none."""
        try:
            found = await self._client.get(CONFIG_MAPS, self._key)
        except NotFound:
            return ""
        return str((found.get("data") or {}).get(DATA_KEY, ""))
