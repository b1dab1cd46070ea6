"""A day of a cluster in virtual time: small jobs always wait, now and then a large one comes, and the real decision code decides.

Cache, sessions and actions are those of the scheduler; there is no API server, and a pod runs as soon as it is placed.
"""

from __future__ import annotations

import heapq
import math
import random
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Final

import msgspec

from pyroclast.api import keys, records
from pyroclast_scheduler.cache.cache import Cache
from pyroclast_scheduler.cycle import run_cycle
from pyroclast_scheduler.model.reservations import Reservation
from pyroclast_scheduler.session.configuration import Configuration, parse
from pyroclast_scheduler.session.outcome import Commit
from pyroclast_scheduler.session.ports import Ports
from tests.bench import scheduler as bench
from tests.scenarios.taking import take_statuses

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
_EPOCH: Final = 1_800_000_000.0
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


class _World:
    def __init__(self, day: Day) -> None:
        self._day = day
        self._cache = Cache()
        self._configuration = day.configuration
        self._random = random.Random(day.seed)
        self._reservations: dict[str, Reservation] | None = None
        self._ends: list[tuple[float, str]] = []
        self._pods: dict[str, list[str]] = {}
        self._groups: dict[str, records.PodGroup] = {}
        self._lengths: dict[str, float] = {}
        self._unplaced: dict[str, int] = {}
        self._waiting = 0
        self._names = (f"small{i}" for i in range(10**9))
        self.used = 0
        self.ended = 0
        self._cache.queue_changed(None, bench.queue("default"))
        for i in range(NODES):
            self._cache.node_changed(None, bench.node(i, cpu=_SIZES[i % len(_SIZES)]))

    def arrive(self, at: float, run: Run) -> None:
        """What has ended goes, new jobs come."""
        while self._ends and self._ends[0][0] <= at:
            _, name = heapq.heappop(self._ends)
            self._end(name)
        while self._waiting < _WAITING:
            seconds = self._random.uniform(*_SMALL_SECONDS)
            self._submit(next(self._names), at, 1, self._random.choice(_SMALL_CPU), seconds)
            self._waiting += 1
        if self._day.every and at // self._day.every > len(run.large) and self._day.seconds - at > self._day.every / 2:
            large = Large(f"large{len(run.large)}", at)
            run.large.append(large)
            self._submit(large.name, at, LARGE_PODS, _LARGE_CPU, _LARGE_SECONDS)

    def step(self, at: float, run: Run) -> int:
        """One session, and what follows from it; how many nodes are locked then."""
        commits: list[Commit] = []
        ports = Ports(_EPOCH + at, commits.append, period=int(at // PERIOD), reservations=self._reservations)
        outcome = run_cycle(
            self._cache.snapshot(), self._configuration, actions=bench.ACTIONS, plugins=bench.PLUGINS, ports=ports, uid="day"
        )
        take_statuses(self._cache, outcome)
        for uid, node in (placed for commit in commits for binds in commit.binds for placed in binds.placed):
            self._place(uid, node, at)
        self._reservations = None if outcome.reservations is None else dict(outcome.reservations)
        for large in run.large:
            state = (self._reservations or {}).get(f"b/{large.name}")
            if state is not None:
                large.chosen = at if large.chosen is None else large.chosen
                if large.promised is None and state.promise is not None:
                    large.promised = state.promise - _EPOCH
            if large.started is None and self._unplaced.get(large.name) == 0:
                large.started = at
        return sum(len(state.locks) for state in (self._reservations or {}).values())

    @property
    def promises(self) -> list[float]:
        """What targets are promised, in whole seconds since the day began."""
        return [math.ceil(each.promise - _EPOCH) for each in (self._reservations or {}).values() if each.promise is not None]

    def _submit(self, name: str, at: float, pods: int, cpu: int, seconds: float) -> None:
        body = msgspec.to_builtins(bench.group(name, pods))
        body["metadata"]["creationTimestamp"] = _timestamp(at)
        body["spec"]["minResources"] = {"cpu": str(pods * cpu)}
        if self._day.said:
            said = math.ceil(seconds * self._random.choice(self._day.said))
            body["metadata"]["annotations"] = {keys.RUNNING_ESTIMATE: f"{said}s"}
        self._groups[name] = msgspec.convert(body, records.PodGroup)
        self._cache.group_changed(None, self._groups[name])
        for i in range(pods):
            self._cache.pod_changed(None, bench.pod(name, i, millis=1000 * cpu))
        self._pods[name] = [f"{name}-w-{i}" for i in range(pods)]
        self._lengths[name], self._unplaced[name] = seconds, pods

    def _place(self, uid: str, node: str, at: float) -> None:
        task = self._cache.tasks[uid]
        self._cache.pod_changed(task.pod, bench.running(task.pod, node, _timestamp(at)))
        name = task.job.partition("/")[2]
        self.used += task.shape.request["cpu"] // 1000
        self._unplaced[name] -= 1
        if not self._unplaced[name]:
            heapq.heappush(self._ends, (at + self._lengths[name], name))
            self._waiting -= name.startswith("small")

    def _end(self, name: str) -> None:
        for task in [self._cache.tasks[uid] for uid in self._pods.pop(name)]:
            self.used -= task.shape.request["cpu"] // 1000
            self._cache.pod_changed(task.pod, None)
        self._cache.group_changed(self._groups.pop(name), None)
        self.ended += name.startswith("small")


def _timestamp(at: float) -> str:
    return datetime.fromtimestamp(_EPOCH + at, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
