"""`python -m tests.bench.estimates`: how often estimates of starts hold, over days of a cluster in virtual time.

Cache, sessions and actions are those of the scheduler, and so are the estimates; a pod runs as soon as it is placed. A line per
load and queue: how many Jobs started, how often the 80 % interval held, how often they came before and after it, how wide it was,
and how far the likely start was off.

With `--trace FILE` the jobs are those of a recorded trace in the Standard Workload Format. None comes with the project.
"""

from __future__ import annotations

import argparse
import heapq
import math
import random
import statistics
import sys
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path
from typing import Final

import msgspec

from pyroclast.api import records
from pyroclast_scheduler.explaining.annotations import Start
from pyroclast_scheduler.explaining.book import WaitingBook
from pyroclast_scheduler.explaining.calibration import Calibration, Score
from pyroclast_scheduler.explaining.estimates import Estimator, PassInput, begin
from pyroclast_scheduler.session.configuration import parse
from tests.bench import scheduler as bench

NODES: Final = 20
CPU: Final = 16
_TOTAL: Final = NODES * CPU
_MEAN_SECONDS: Final = 1800.0
_SIGMA: Final = 0.8
_SIZES: Final = (1, 1, 1, 2, 2, 4, 8)
_POD_CPU: Final = 4
_QUEUES: Final = ("declared", "history")
_CONFIGURATION: Final = """
actions: "enqueue, allocate, backfill"
tiers:
- plugins: [{name: priority}, {name: gang}, {name: conformance}]
- plugins: [{name: drf}, {name: predicates}, {name: proportion}, {name: nodeorder}, {name: binpack}]
"""


@dataclass(frozen=True)
class TracedJob:
    """A job as it was: seconds since the begin of the trace, run time, processors; `said`: the run time that it asked for."""

    at: float
    seconds: float
    processors: int
    queue: str
    said: float | None


@dataclass(frozen=True)
class Trace:
    """The jobs by the time of their submission, and the processors of the machine."""

    jobs: tuple[TracedJob, ...]
    processors: int


def read_trace(lines: Iterable[str]) -> Trace:
    """Read a trace in the Standard Workload Format: 18 numbers a job, -1 for unknown.

    Jobs that never ran, or whose size nobody knows, are left out.

    Raises:
        ValueError: a line is none of the format.
    """
    found: list[TracedJob] = []
    processors = 0
    for number, line in enumerate(lines, 1):
        text = line.strip()
        if text.startswith(";"):
            name, _, value = text.lstrip("; ").partition(":")
            if name.strip() == "MaxProcs" and value.split()[:1]:
                processors = int(value.split()[0])
        elif text:
            fields = text.split()
            if len(fields) != 18:
                raise ValueError(f"line {number} has {len(fields)} fields; a job in the Standard Workload Format has 18")
            at, seconds, allocated, requested, said = (float(fields[index]) for index in (1, 3, 4, 7, 8))
            size = int(allocated if allocated > 0 else requested)
            if seconds > 0 and size > 0:
                queue = f"queue-{fields[14]}" if float(fields[14]) >= 0 else "queue"
                found.append(TracedJob(at, seconds, size, queue, said if said > 0 else None))
    found.sort(key=lambda job: job.at)
    begin = found[0].at if found else 0.0
    moved = tuple(TracedJob(job.at - begin, job.seconds, job.processors, job.queue, job.said) for job in found)
    return Trace(moved, max(processors, *(job.processors for job in moved), 1) if moved else max(processors, 1))


@dataclass(frozen=True)
class Arrival:
    """A job that comes at a time: its pods, how long it runs, and how long it says that it runs."""

    at: float
    queue: str
    size: int
    seconds: float
    said: float | None


@dataclass(frozen=True)
class Day:
    """`load`: what comes, as a part of what the cluster can do. `slower`: from that time on jobs run so many times longer.

    `pause`: seconds between two passes of the estimator. `trace`: jobs that were recorded, instead of drawn ones.
    """

    load: float
    seconds: float = 86400.0
    seed: int = 14
    slower: tuple[float, float] | None = None
    pause: float = 60.0
    trace: Trace | None = None

    @property
    def queues(self) -> tuple[str, ...]:
        """The queues that jobs come to."""
        return _QUEUES if self.trace is None else tuple(sorted({job.queue for job in self.trace.jobs}))

    @property
    def nodes(self) -> int:
        """How many nodes there are."""
        return NODES if self.trace is None else math.ceil(self.trace.processors / CPU)

    def arrivals(self) -> Iterator[Arrival]:
        """The jobs in the order in which they come."""
        if self.trace is None:
            yield from self._drawn()
            return
        for job in self.trace.jobs:
            yield Arrival(job.at, job.queue, math.ceil(job.processors / _POD_CPU), job.seconds, job.said)

    def _drawn(self) -> Iterator[Arrival]:
        chance = random.Random(self.seed)
        rate = self.load * _TOTAL / (statistics.mean(_SIZES) * _POD_CPU * _MEAN_SECONDS)
        at = chance.expovariate(rate)
        while True:
            queue, size = chance.choice(_QUEUES), chance.choice(_SIZES)
            seconds = chance.lognormvariate(math.log(_MEAN_SECONDS) - _SIGMA**2 / 2, _SIGMA)
            said = seconds * chance.uniform(0.8, 2.5) if queue == "declared" else None
            if self.slower is not None and at >= self.slower[0]:
                seconds *= self.slower[1]
            yield Arrival(at, queue, size, seconds, said)
            at += chance.expovariate(rate)


@dataclass
class Held:
    """The scores of a queue."""

    scores: list[Score] = field(default_factory=list)

    @property
    def held(self) -> float:
        """Which part started within the interval."""
        return sum(score.held for score in self.scores) / len(self.scores)

    @property
    def early(self) -> float:
        """Which part started before it."""
        return sum(score.actual < score.told.earliest for score in self.scores) / len(self.scores)

    @property
    def late(self) -> float:
        """Which part started after it."""
        return sum(score.actual > score.told.latest for score in self.scores) / len(self.scores)

    def __str__(self) -> str:
        width = statistics.median(score.told.latest - score.told.earliest for score in self.scores)
        error = statistics.median(abs(score.told.likely - score.actual) for score in self.scores)
        wait = statistics.median(score.actual for score in self.scores)
        shares = f"held {self.held:6.1%}  early {self.early:5.1%}  late {self.late:5.1%}"
        return f"{len(self.scores):5} predictions  {shares}  wait {wait:6.0f} s  width {width:6.0f} s  error {error:6.0f} s"


@dataclass(frozen=True)
class Told:
    """What one pass told a queue: when, after how many Jobs of the day, to how many that wait, to how many of them a start, how
    wide its interval was in the median, in seconds, and which part of the last estimates held.
    """

    at: float
    submitted: int
    waiting: int
    starts: int
    width: float
    held: float | None


class _Noting(Calibration):
    """Notes every score beside."""

    def __init__(self, held: dict[str, Held]) -> None:
        super().__init__()
        self._held = held

    def add(self, queue: str, score: Score) -> None:
        self._held.setdefault(queue, Held()).scores.append(score)
        super().add(queue, score)


class _World(bench.VirtualCluster):
    def __init__(self, day: Day) -> None:
        super().__init__(parse(_CONFIGURATION, actions=bench.ACTIONS, plugins=bench.PLUGINS), day.queues, [CPU] * day.nodes)
        self._day, self._numbers = day, count()
        self.held: dict[str, Held] = {}
        self.told: dict[str, list[Told]] = {name: [] for name in day.queues}
        self._submitted = 0
        self.book, self.estimator = WaitingBook(), Estimator(calibration=_Noting(self.held))
        self._ends: list[tuple[float, str]] = []
        self._lengths: dict[str, float] = {}

    def live(self) -> None:
        """Let the day pass."""
        arrivals, estimate = self._day.arrivals(), 0.0
        arrival = next(arrivals, None)
        while True:
            at = min(arrival.at if arrival else math.inf, estimate, self._ends[0][0] if self._ends else math.inf)
            if at >= self._day.seconds:
                return
            if arrival is not None and at == arrival.at:
                self._arrive(arrival)
                arrival = next(arrivals, None)
            while self._ends and self._ends[0][0] <= at:
                self._succeed(heapq.heappop(self._ends)[1], at)
            self._decide(at)
            if at == estimate:
                self._estimate(at)
                estimate = at + self._day.pause

    def _estimate(self, at: float) -> None:
        if not len(self.book):
            return
        made = begin(self.estimator, PassInput(self.book, self.cache.view(), {}, bench.EPOCH + at))
        while not made.is_done:
            made.step()
        self.estimator.take(made)
        for queue, noted in self.told.items():
            starts = [
                self.estimator.start(each.key, bench.EPOCH + at) for each in self.book.between(queue, 0, self.book.length(queue))
            ]
            widths = [start.latest - start.earliest for start in starts if isinstance(start, Start)]
            width, held = statistics.median(widths) if widths else 0.0, self.estimator.calibration.held(queue)
            noted.append(Told(at, self._submitted, len(starts), len(widths), width, held))

    def _decide(self, at: float) -> None:
        outcome, started = self.session(at, period=int(at))
        self.book.take(outcome.records, outcome.seen, bench.EPOCH + at, since={})
        for name in started:
            heapq.heappush(self._ends, (at + self._lengths[name], name))
        self.cache.prepare()
        facts = self.cache.jobs.all_facts()
        for key in outcome.seen:
            self.estimator.saw(key, facts.get(key), bench.EPOCH + at)

    def _arrive(self, job: Arrival) -> None:
        name = f"{job.queue}-job-{next(self._numbers)}"
        self._submitted += 1
        self._lengths[name] = job.seconds
        self.submit(name, job.size, _POD_CPU, queue_name=job.queue, at=job.at, said=job.said, memory=f"{job.size}Gi")

    def _succeed(self, name: str, at: float) -> None:
        for task in self.cache.groups.tasks_of(f"b/{name}"):
            body = msgspec.to_builtins(task.pod)
            body["status"]["phase"] = "Succeeded"
            self.cache.pod_changed(task.pod, msgspec.convert(body, records.Pod))
        self._decide(at)
        self.end(name)


def live(day: Day) -> dict[str, Held]:
    """The scores of a day, by queue."""
    world = _World(day)
    world.live()
    return world.held


def told_over(day: Day) -> dict[str, list[Told]]:
    """What the passes of a day told, by queue."""
    world = _World(day)
    world.live()
    return world.told


def main() -> int:
    """Print a line per load and queue; the exit status: whether every interval held as often as it says."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--hours", type=float, default=24.0)
    parser.add_argument("--loads", type=float, nargs="+", default=[0.7, 0.9, 0.98])
    parser.add_argument("--trace", type=Path, help="a file in the Standard Workload Format; --loads does not count then")
    options = parser.parse_args()
    days = [(f"load {load:.0%}", Day(load, options.hours * 3600)) for load in options.loads]
    if options.trace is not None:
        with options.trace.open(encoding="utf-8", errors="replace") as lines:
            days = [(options.trace.name, Day(0.0, options.hours * 3600, trace=read_trace(lines)))]
    is_well = True
    for title, day in days:
        for queue, held in sorted(live(day).items()):
            well = 0.72 <= held.held <= 0.88 and max(held.early, held.late) <= 0.16
            is_well &= well or len(held.scores) < 200
            sys.stdout.write(f"{title}  queue {queue:<9} {held}  {'met' if well else 'MISSED'}\n")
            sys.stdout.flush()
    return 0 if is_well else 1


if __name__ == "__main__":
    raise SystemExit(main())
