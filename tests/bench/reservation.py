"""`python -m tests.bench.reservation`: what it costs to keep nodes for large jobs, over a day in virtual time.

100 nodes, small jobs of 2 to 60 minutes of which 40 always wait, and a large job for half of the cluster now and then. A line per
run: how many large jobs started, how long they waited, by how much their promise was missed, and the utilisation. `--figures
FILE` writes them, and `--plot FILE` draws from those figures what the documentation shows.
"""

from __future__ import annotations

import argparse
import heapq
import json
import math
import random
import statistics
import sys
from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final
from xml.sax.saxutils import escape

from pyroclast_scheduler.model.reservations import Reservation
from pyroclast_scheduler.session.configuration import Configuration, parse
from tests.bench import scheduler as bench

NODES: Final = 100
PERIOD: Final = 60.0  # seconds between sessions
_SIZES: Final = (32, 16)  # cpu of the nodes, in turn
_TOTAL: Final = sum(_SIZES[i % len(_SIZES)] for i in range(NODES))
_LARGE_CPU: Final = 16
LARGE_PODS: Final = _TOTAL // 2 // _LARGE_CPU
_LARGE_SECONDS: Final = 1800.0
_SMALL_CPU: Final = (4, 8, 16)
_SMALL_SECONDS: Final = (120.0, 3600.0)
_WAITING: Final = 40  # small jobs that wait at any time
_ACTIONS: Final = """
actions: "enqueue, %s"
tiers:
- plugins: [{name: priority}, {name: gang}, {name: conformance}%s]
- plugins: [{name: drf}, {name: predicates}, {name: proportion}, {name: nodeorder}, {name: binpack}]
"""


@dataclass(frozen=True)
class Day:
    """What a run is made of. `arguments`: of the plugin, as text; None: nobody reserves. `said`: how estimates compare to how
    long jobs run, one of these factors each time; empty: there are none. `every`: seconds between large jobs; 0: none comes."""

    name: str
    arguments: str | None = ""
    said: tuple[float, ...] = ()
    seconds: float = 86400.0
    every: float = 4 * 3600.0
    seed: int = 14

    @property
    def configuration(self) -> Configuration:
        if self.arguments is None:
            text = _ACTIONS % ("allocate, backfill", "")
        else:
            plugin = f", {{name: reservation, arguments: {{{self.arguments}}}}}"
            text = _ACTIONS % ("elect, allocate, backfill, reserve", plugin)
        return parse(text, actions=bench.ACTIONS, plugins=bench.PLUGINS)


@dataclass
class Large:
    """A large job; times in seconds since the day began, None: not yet, or never."""

    name: str
    came: float
    chosen: float | None = None
    promised: float | None = None
    started: float | None = None


@dataclass(frozen=True)
class Sample:
    """One moment: the nodes that are locked, and the part of the cpu that is idle."""

    time: float
    locked: int
    idle: float


@dataclass
class Run:
    """What came out of a day. `utilisation`: the part of all cpu-seconds that was given to pods."""

    day: Day
    large: list[Large] = field(default_factory=list)
    samples: list[Sample] = field(default_factory=list)
    small_done: int = 0

    @property
    def utilisation(self) -> float:
        return 1 - sum(sample.idle for sample in self.samples) / len(self.samples)

    @property
    def waits(self) -> list[float]:
        """Seconds that the large jobs that started waited."""
        return [each.started - each.came for each in self.large if each.started is not None]

    @property
    def lateness(self) -> list[float]:
        """Seconds from the first promise to the start, of those that were promised a time; negative: before it."""
        return [each.started - each.promised for each in self.large if each.started is not None and each.promised is not None]


def live(day: Day) -> Run:
    """Let the day pass: a session in each period, and when a promise is due, since what gets free then wakes the scheduler."""
    world, run = _World(day), Run(day)
    at = 0.0
    while at < day.seconds:
        world.arrive(at, run)
        locked = world.step(at, run)
        if at % PERIOD == 0:
            run.samples.append(Sample(at, locked, 1 - world.used / _TOTAL))
        at = min([at - at % PERIOD + PERIOD, *(each for each in world.promises if each > at)])
    run.small_done = world.ended
    return run


class _World(bench.VirtualCluster):
    def __init__(self, day: Day) -> None:
        super().__init__(day.configuration, ["default"], [_SIZES[i % len(_SIZES)] for i in range(NODES)])
        self._day = day
        self._random = random.Random(day.seed)
        self._reservations: dict[str, Reservation] | None = None
        self._ends: list[tuple[float, str]] = []
        self._jobs: dict[str, tuple[int, float]] = {}  # the cpu of all pods, and how long they run
        self._waiting = 0
        self._names = (f"small{i}" for i in range(10**9))
        self.used = 0
        self.ended = 0

    def arrive(self, at: float, run: Run) -> None:
        """What has ended goes, new jobs come."""
        while self._ends and self._ends[0][0] <= at:
            _, name = heapq.heappop(self._ends)
            self.used -= self._jobs.pop(name)[0]
            self.end(name)
            self.ended += name.startswith("small")
        while self._waiting < _WAITING:
            seconds = self._random.uniform(*_SMALL_SECONDS)
            self._arrive(next(self._names), at, 1, self._random.choice(_SMALL_CPU), seconds)
            self._waiting += 1
        if self._day.every and at // self._day.every > len(run.large) and self._day.seconds - at > self._day.every / 2:
            large = Large(f"large{len(run.large)}", at)
            run.large.append(large)
            self._arrive(large.name, at, LARGE_PODS, _LARGE_CPU, _LARGE_SECONDS)

    def step(self, at: float, run: Run) -> int:
        """One session, and what follows from it; how many nodes are locked then."""
        outcome, started = self.session(at, period=int(at // PERIOD), reservations=self._reservations)
        for name in started:
            cpu, seconds = self._jobs[name]
            self.used += cpu
            heapq.heappush(self._ends, (at + seconds, name))
            self._waiting -= name.startswith("small")
        self._reservations = None if outcome.reservations is None else dict(outcome.reservations)
        for large in run.large:
            state = (self._reservations or {}).get(f"b/{large.name}")
            if state is not None:
                large.chosen = at if large.chosen is None else large.chosen
                if large.promised is None and state.promise is not None:
                    large.promised = state.promise - bench.EPOCH
            if large.started is None and self.is_placed(large.name):
                large.started = at
        return sum(len(state.locks) for state in (self._reservations or {}).values())

    @property
    def promises(self) -> list[float]:
        """What targets are promised, in whole seconds since the day began."""
        return [math.ceil(each.promise - bench.EPOCH) for each in (self._reservations or {}).values() if each.promise is not None]

    def _arrive(self, name: str, at: float, pods: int, cpu: int, seconds: float) -> None:
        said = seconds * self._random.choice(self._day.said) if self._day.said else None
        self._jobs[name] = pods * cpu, seconds
        self.submit(name, pods, cpu, queue_name="default", at=at, said=said)


_SHOWN: Final = ("no reservation", "no estimates", "honest estimates", "estimates wrong by two")
_WIDTH, _HEIGHT, _LEFT, _TOP, _GAP = 760, 96, 48, 34, 44
_DAY_HOURS: Final = 24
_STYLE: Final = (
    "text{font:12px sans-serif;fill:#333}.axis{stroke:#999;stroke-width:1}.locked{fill:#c55a11;fill-opacity:.35}"
    ".idle{fill:none;stroke:#1f4e79;stroke-width:1.2}.background{fill:#fff}"
)


def draw(found: Iterable[Mapping[str, Any]]) -> str:
    """An SVG with a panel for each of the runs that are shown: nodes locked, and the idle part of the cluster as nodes."""
    runs = {run["name"]: run for run in found}
    shown = [runs[name] for name in _SHOWN if name in runs]
    height = _TOP + len(shown) * (_HEIGHT + _GAP)
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_LEFT + _WIDTH + 12} {height}" role="img">',
        f"<title>Nodes locked and idle over a day</title><style>{_STYLE}</style>",
        '<rect class="background" width="100%" height="100%"/>',
        f'<rect class="locked" x="{_LEFT}" y="8" width="14" height="10"/><text x="{_LEFT + 20}" y="17">locked nodes</text>',
        f'<path class="idle" d="M{_LEFT + 120} 13h14"/><text x="{_LEFT + 140}" y="17">idle, in nodes of average size</text>',
    ]
    for i, run in enumerate(shown):
        parts += _panel(run, _TOP + 10 + i * (_HEIGHT + _GAP))
    return "\n".join([*parts, "</svg>", ""])


def _panel(run: Mapping[str, Any], top: int) -> list[str]:
    bottom = top + _HEIGHT
    samples: Sequence[Sequence[float]] = run["samples"]
    locked = [(time, nodes) for time, nodes, _ in samples]
    idle = [(time, part * NODES) for time, _, part in samples]
    title = f"{run['name']}: {run['started']} of {run['large']} large jobs start, utilisation {run['utilisation']:.3f}"
    parts = [f'<text x="{_LEFT}" y="{top - 4}">{escape(title)}</text>']
    parts += [
        f'<text x="{_LEFT - 6}" y="{_y(nodes, bottom) + 4:.0f}" text-anchor="end">{nodes}</text>'
        f'<path class="axis" d="M{_LEFT - 4} {_y(nodes, bottom):.0f}h4"/>'
        for nodes in (0, 50, 100)
    ]
    parts += [
        f'<text x="{_x(hour * 3600):.0f}" y="{bottom + 14}" text-anchor="middle">{hour} h</text>'
        for hour in range(0, _DAY_HOURS + 1, 4)
    ]
    parts.append(f'<path class="locked" d="M{_x(0):.1f} {bottom}{_steps(locked, bottom)}V{bottom}Z"/>')
    parts.append(f'<path class="idle" d="M{_x(0):.1f} {_y(idle[0][1], bottom):.1f}{_steps(idle, bottom)}"/>')
    parts.append(f'<path class="axis" fill="none" d="M{_LEFT} {top}V{bottom}H{_LEFT + _WIDTH}"/>')
    return parts


def _steps(points: Iterable[tuple[float, float]], bottom: int) -> str:
    """A line of steps; moments at which nothing changes are left out."""
    drawn: list[str] = []
    before = None
    last = 0.0
    for time, value in points:
        last = time
        if value != before:
            drawn.append(f"H{_x(time):.1f}V{_y(value, bottom):.1f}")
            before = value
    return "".join(drawn) + f"H{_x(last):.1f}"


def _x(seconds: float) -> float:
    return _LEFT + _WIDTH * seconds / 3600 / _DAY_HOURS


def _y(nodes: float, bottom: int) -> float:
    return bottom - _HEIGHT * nodes / NODES


_HOURS: Final = 3600.0
_ORDERS: Final = [
    Day(f"{order}, {locks} per cycle", f"nodeOrder: {order}, locksPerCycle: {locks}", seconds=6 * _HOURS, every=2 * _HOURS)
    for order in ("capacity", "idle")
    for locks in ("1", "4", "all")
]
DAYS: Final = [
    Day("small jobs only", None, every=0),
    Day("no reservation", None),
    Day("no estimates", "locksPerCycle: 4"),
    Day("honest estimates", "locksPerCycle: 4", (1.0,)),
    Day("honest estimates, fill off", "locksPerCycle: 4, fill: false", (1.0,)),
    Day("estimates wrong by two", "locksPerCycle: 4", (0.5, 2.0)),
    *_ORDERS,
]


def figures(run: Run) -> dict[str, Any]:
    """What is told of a run, seconds and parts of 1."""
    return {
        "name": run.day.name,
        "hours": run.day.seconds / _HOURS,
        "utilisation": round(run.utilisation, 4),
        "large": len(run.large),
        "started": len(run.waits),
        "waits": run.waits,
        "lateness": run.lateness,
        "small": run.small_done,
        "samples": [[each.time, each.locked, round(each.idle, 3)] for each in run.samples],
    }


def line(told: dict[str, Any]) -> str:
    """A row of the table."""
    waits, lateness = told["waits"], told["lateness"]
    wait = f"{statistics.mean(waits) / 60:5.0f} {max(waits) / 60:5.0f}" if waits else "    -     -"
    late = f"{max(lateness) / 60:6.1f}" if lateness else "     -"
    return (
        f"{told['name']:<28} {told['hours']:3.0f} h  {told['started']}/{told['large']} started  wait {wait} min (mean, longest)  "
        f"late {late} min  utilisation {told['utilisation']:.3f}  small {told['small']}"
    )


def main() -> int:
    """Run what is asked for."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", default="", help="runs whose name contains this")
    parser.add_argument("--processes", type=int, default=1)
    parser.add_argument("--figures", type=Path, help="write what was found, or with --plot alone: read it")
    parser.add_argument("--plot", type=Path)
    parser.add_argument("--draw-only", action="store_true", help="run nothing; draw from --figures")
    options = parser.parse_args()
    if options.draw_only:
        found = json.loads(options.figures.read_text())
    else:
        found = []
        days = [day for day in DAYS if options.only in day.name]
        with ProcessPoolExecutor(options.processes) as pool:
            for run in pool.map(live, days):
                found.append(figures(run))
                sys.stdout.write(line(found[-1]) + "\n")
                sys.stdout.flush()
                if options.figures:
                    rows = ",\n".join(json.dumps(each, separators=(",", ":")) for each in found)
                    options.figures.write_text(f"[\n{rows}\n]\n")
    if options.plot:
        options.plot.write_text(draw(found))
    return 0


if __name__ == "__main__":
    sys.exit(main())
