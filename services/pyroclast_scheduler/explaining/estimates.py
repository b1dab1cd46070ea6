"""Estimates of starts: simulated scenarios between sessions, calibrated by earlier estimates, and scored when jobs start."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from math import ceil
from typing import Final

import numpy as np

from pyroclast.api.waiting_reasons import PendingReason as Code
from pyroclast.lifecycle.times import format_time
from pyroclast_scheduler.explaining.annotations import Start
from pyroclast_scheduler.explaining.book import WaitingBook, WaitingEntry
from pyroclast_scheduler.explaining.calibration import Calibration, Interval, Score
from pyroclast_scheduler.explaining.lengths import GRID, Basis, Lengths, began, keys_of, remaining
from pyroclast_scheduler.explaining.simulation import HORIZON, World, scenario, seeds
from pyroclast_scheduler.model import demand
from pyroclast_scheduler.model.job_facts import JobFacts
from pyroclast_scheduler.model.node_columns import Floats
from pyroclast_scheduler.model.reservations import Reservation
from pyroclast_scheduler.model.snapshot import Snapshot

SCENARIOS: Final = 32
MOST_JOBS: Final = 1000
"""The largest number of jobs of one pass. The first jobs of all queues are included first."""

_EVERY_SECONDS: Final = 3600.0
_ROOM: Final = frozenset({
    Code.QUEUE_FULL, Code.CLUSTER_FULL, Code.HELD_BY_GUARANTEE, Code.BEHIND_ANOTHER, Code.NODES_FULL, Code.ROOM_IS_COMING,
    Code.KEPT_FOR_ANOTHER,
})  # fmt: skip
"""Codes that end when there is room. The end of other codes cannot be estimated."""

_DEPTH: Final = 4


@dataclass(slots=True)
class _Made:
    """An estimate whose job has not started yet."""

    at: float
    raw: Interval
    told: Interval


@dataclass(slots=True)
class Estimator:
    """The estimates by job, and the calibration by real starts. Only one thread may use it at a time.

    `least_held`: the fraction of the last estimates of a queue that must have held; otherwise a text replaces its estimates.
    """

    least_held: float = 0.6
    lengths: Lengths = field(default_factory=Lengths)
    calibration: Calibration = field(default_factory=Calibration)
    _starts: dict[str, Start | str] = field(default_factory=dict)
    _made: dict[str, list[_Made]] = field(default_factory=dict)
    _running: dict[str, tuple[JobFacts, float]] = field(default_factory=dict)

    def start(self, key: str, now: float) -> Start | str:
        """Return the estimated start of a job, not before `now`, or a text that says why there is none."""
        start = self._starts.get(key, "no estimate has been made yet")
        if isinstance(start, str):
            return start
        return start.at(now) or f"it was to start by {format_time(start.latest)}, and the next estimate is not made yet"

    def saw(self, key: str, facts: JobFacts | None, now: float) -> None:
        """Record that a session examined a job or that the job was deleted: learn its run time and score its estimates."""
        known = self._running.get(key)
        is_placed = facts is not None and facts.tally.ready >= max(1, facts.min_available) and not _is_over(facts)
        if facts is not None and is_placed:
            if known is None:
                for made in self._made.pop(key, ()):
                    self.calibration.add(facts.queue, Score(made.raw, made.told, now - made.at))
                self._starts.pop(key, None)
                self._running[key] = facts, began(facts) or now
            return
        if known is not None:
            del self._running[key]
            if facts is not None and _is_over(facts):
                self.lengths.ended(known[0], max(1.0, now - (began(known[0]) or known[1])))
        elif facts is None:
            self._made.pop(key, None)
            self._starts.pop(key, None)

    def take(self, done: Pass) -> None:
        """Store the estimated starts that the pass `done` found."""
        self.calibration.wait_for(self._overdue(done))
        for key, raw in done.found.items():
            self._starts[key] = self.told(done, key)
            made = self._made.setdefault(key, []) if isinstance(raw, Interval) else None
            if isinstance(raw, Interval) and made is not None and (not made or done.now >= made[-1].at + _EVERY_SECONDS):
                made.append(_Made(done.now, raw, self._stretched(done, key, raw)))

    def told(self, done: Pass, key: str) -> Start | str:
        """Return the start that the pass `done` found for a job, calibrated, with its basis and how many estimates held."""
        raw, queue = done.found.get(key, "it is not among the jobs that were simulated"), done.queues.get(key, "")
        if isinstance(raw, str):
            return raw
        held, count = self.calibration.judged(queue)
        rate = f"{held} of the last {count} estimates of queue {queue} held" if count else f"not yet measured in queue {queue}"
        if self.calibration.is_trusted(queue, self.least_held):
            return _rounded(done.now, self._stretched(done, key, raw), f"{done.basis}; {rate}")
        return f"only {rate}, and the least is {self.least_held:.0%}"

    def _stretched(self, done: Pass, key: str, raw: Interval) -> Interval:
        return _within(self.calibration.stretched(done.queues[key], raw), done.latest.get(key))

    def _overdue(self, done: Pass) -> dict[str, list[Score]]:
        """Return the overdue estimates of the jobs of a pass, by queue."""
        found: dict[str, list[Score]] = {}
        for key, queue in done.queues.items():
            for made in self._made.get(key, ()):
                if done.now > made.at + made.told.latest:
                    found.setdefault(queue, []).append(Score(made.raw, made.told, done.now - made.at))
        return found


@dataclass(slots=True)
class Pass:
    """One estimation of all waiting jobs: `step` simulates one scenario, until `is_done`.

    `found`: by job the interval in seconds from `now`, or a text that says why there is none. `latest`: the promises of the
    targets of reservations, by job.
    """

    now: float
    world: World
    queues: Mapping[str, str]
    unknown: str
    basis: str
    latest: Mapping[str, float]
    found: dict[str, Interval | str] = field(default_factory=dict)
    _drawn: list[Floats] = field(default_factory=list)

    @property
    def is_done(self) -> bool:
        """Whether all scenarios of this pass were simulated."""
        return len(self._drawn) >= SCENARIOS or not self.world.keys

    def step(self) -> None:
        """Simulate one scenario, and calculate the intervals after the last one."""
        if not self.is_done:
            self._drawn.append(scenario(self.world, len(self._drawn)))
        if self.is_done and self._drawn:
            self._conclude()

    def _conclude(self) -> None:
        ordered = np.sort(np.array(self._drawn), axis=0)
        for row, key in enumerate(self.world.keys):
            earliest, likely, latest = (ordered[int(level * (SCENARIOS - 1)), row] for level in (0.1, 0.5, 0.9))
            if np.isfinite(likely):
                end = latest if np.isfinite(latest) else HORIZON
                self.found[key] = Interval(float(earliest), float(likely), float(end))
            else:
                self.found[key] = self.unknown or "it starts later than in 7 days"


@dataclass(frozen=True, slots=True)
class PassInput:
    """The input of a pass of estimates. `name`: returns a public name for a job whose run time is unknown.

    `hopeful`: codes of jobs that are simulated though room alone does not help them. `most`: the largest number of jobs.
    """

    book: WaitingBook
    snapshot: Snapshot
    reservations: Mapping[str, Reservation]
    now: float
    name: Callable[[JobFacts], str] = lambda _facts: "a Job that holds what is short"
    hopeful: frozenset[Code] = frozenset()
    most: int = MOST_JOBS


def begin(estimator: Estimator, given: PassInput) -> Pass:
    """Return a pass over the jobs that wait now. A job without an estimate gets the reason at once."""
    snapshot, now = given.snapshot, given.now
    jobs, dimensions = snapshot.all_jobs, snapshot.dimensions
    found: dict[str, Interval | str] = {}
    heads = _heads(given.book, given.most)
    entries = [entry for entry in heads if _is_for_room(entry, jobs, found, given.hopeful)]
    rows = {queue: row for row, queue in enumerate(snapshot.queues)}
    chains = {queue: _chain(queue, snapshot, rows) for queue in rows}
    limits, used = _shares(snapshot, rows, chains)
    running = _Running(estimator.lengths, jobs, now)
    for facts in jobs.values():
        running.add(facts, facts.allocated(dimensions), chains.get(facts.queue) or [len(rows)] * _DEPTH)
    asked = [jobs[entry.key].minimum(dimensions) for entry in entries]
    world = World(
        _free(snapshot, given.reservations),
        used,
        limits,
        _stacked(running.ends, GRID),
        _stacked(running.held, len(dimensions)),
        np.array(running.chains, dtype=np.int64).reshape(-1, _DEPTH),
        _stacked([each for each in asked if each is not None], len(dimensions)),
        _stacked([estimator.lengths.of(jobs[entry.key])[0] for entry in entries], GRID),
        np.array([chains[entry.record.queue] for entry in entries], dtype=np.int64).reshape(-1, _DEPTH),
        [entry.key for entry in entries],
        seeds(running.keys),
        seeds(entry.key for entry in entries),
    )
    unknown = running.unknown
    why = "" if unknown is None else f"the run time of {given.name(unknown)} is not known"
    promises = {key: each.promise - now for key, each in given.reservations.items() if each.promise is not None}
    queues = {entry.key: entry.record.queue for entry in entries}
    return Pass(now, world, queues, why, running.basis, promises, found)


class _Running:
    """The jobs with allocated amounts: the amounts, the queues, and the remaining run times."""

    def __init__(self, lengths: Lengths, jobs: Mapping[str, JobFacts], now: float) -> None:
        self._lengths, self._now = lengths, now
        self._elapsed: dict[str, list[float]] = {}
        for facts in jobs.values():
            started = began(facts) if facts.sums.allocated else None
            if started is not None:
                self._elapsed.setdefault(keys_of(facts)[0], []).append(max(0.0, now - started))
        self.keys: list[str] = []
        self.ends: list[Floats] = []
        self.held: list[Floats] = []
        self.chains: list[list[int]] = []
        self._bases: list[Basis] = []
        self.unknown: JobFacts | None = None
        self._most = 0.0

    def add(self, facts: JobFacts, allocated: Floats, chain: list[int]) -> None:
        """Add a job if it has allocated amounts. The largest job with an unknown run time is stored in `unknown`."""
        if not allocated.any():
            return
        grid, basis = self._lengths.of(facts, self._elapsed.get(keys_of(facts)[0], ()))
        started = began(facts)
        self.keys.append(facts.key)
        self.ends.append(remaining(grid, max(0.0, self._now - started) if started is not None else 0.0))
        self.held.append(allocated)
        self.chains.append(chain)
        self._bases.append(basis)
        if basis.kind == "unknown" and allocated.sum() > self._most:
            self._most, self.unknown = float(allocated.sum()), facts

    @property
    def basis(self) -> str:
        """The text that names the data from which the run times are estimated."""
        declared = sum(each.kind == "declared" for each in self._bases)
        known = [each.count for each in self._bases if each.kind == "history"]
        unknown = len(self._bases) - declared - len(known)
        parts = [f"{declared} declared run {'time' if declared == 1 else 'times'}"] if declared else []
        parts += [f"{len(known)} from history (n={min(known)} at least)"] if known else []
        parts += [f"{unknown} not known"] if unknown else []
        return ", ".join(parts)


def _shares(snapshot: Snapshot, rows: Mapping[str, int], chains: Mapping[str, list[int]]) -> tuple[Floats, Floats]:
    """Return the limits and the usage of queues, descendants included; the last row has no limit."""
    shape = len(rows) + 1, len(snapshot.dimensions)
    limits, used = np.full(shape, np.inf), np.zeros(shape)
    for queue, row in rows.items():
        limits[row] = demand.capability(snapshot.queues[queue].capability, snapshot.dimensions)
        if queue in snapshot.queue_sums:
            for each in chains[queue]:
                used[each] += snapshot.queue_sums[queue].allocated
    return limits, used


def _is_for_room(
    entry: WaitingEntry, jobs: Mapping[str, JobFacts], found: dict[str, Interval | str], hopeful: frozenset[Code]
) -> bool:
    facts = jobs.get(entry.key)
    if entry.is_never and entry.code not in hopeful:
        found[entry.key] = "waiting alone does not help"
    elif entry.code not in _ROOM | hopeful:
        found[entry.key] = f"nobody knows when {entry.code} passes"
    elif facts is None or not facts.min_resources:
        found[entry.key] = "its PodGroup does not say what it needs"
    else:
        return True
    return False


def _heads(book: WaitingBook, most: int) -> Iterator[WaitingEntry]:
    """Yield the waiting jobs, the first job of each queue before the second one of any queue."""
    lines = [book.between(queue, 0, most) for queue in sorted(book.queues)]
    count = 0
    for at in range(max(map(len, lines), default=0)):
        for line in lines:
            if at < len(line):
                yield line[at]
                count += 1
                if count == most:
                    return


def _chain(queue: str, snapshot: Snapshot, rows: Mapping[str, int]) -> list[int]:
    """Return the rows of a queue and of its ancestors, padded with the row that has no limit."""
    found: list[int] = []
    name = queue
    while name in rows and rows[name] not in found and len(found) < _DEPTH:
        found.append(rows[name])
        name = snapshot.queues[name].parent or "root"
    return found + [len(rows)] * (_DEPTH - len(found))


def _free(snapshot: Snapshot, reservations: Mapping[str, Reservation]) -> Floats:
    """Return the free amounts of all nodes that are not reserved for a target."""
    usable = snapshot.is_ready.copy()
    for each in reservations.values():
        usable[[snapshot.rows[node] for node in each.nodes if node in snapshot.rows]] = False
    columns = snapshot.columns
    idle: Floats = np.maximum(columns.allocatable - columns.used, 0)[:, usable].sum(axis=1, dtype=np.float64)
    return idle


def _stacked(rows: Sequence[Floats], width: int) -> Floats:
    return np.array(rows, dtype=np.float64).reshape(-1, width)


def _is_over(facts: JobFacts) -> bool:
    return facts.tally.finished >= max(1, facts.min_available)


def _within(told: Interval, promise: float | None) -> Interval:
    """Return the interval with the promise as its end."""
    if promise is None or promise <= 0:
        return told
    return Interval(min(told.earliest, promise), min(told.likely, promise), promise)


def _rounded(now: float, told: Interval, basis: str) -> Start:
    """Return the start with times rounded to a tenth of the interval, or to half of the time until then if that is less."""
    width = (told.latest - told.earliest) / 10
    steps = [max(1.0, min(width, part / 2)) for part in told.parts]
    times = [max(ceil(now), round((now + part) / step) * step) for part, step in zip(told.parts, steps, strict=True)]
    earliest, likely, latest = sorted(times)
    return Start(earliest, likely, latest, basis)
