"""`python -m tests.bench.explain`: what explanations and estimates cost with 10,000 Jobs that wait.

A line per figure: sessions with and without estimates beside them, answers without and with trials, the steps of a pass of
estimates, in milliseconds of CPU of their thread; and how many annotations are worth a write while nothing happens.
"""

from __future__ import annotations

import argparse
import statistics
import sys
import threading
import time
from collections.abc import Callable
from typing import Final

import msgspec

from pyroclast.api import records
from pyroclast_scheduler.cycle import run_cycle
from pyroclast_scheduler.explaining.annotations import Turns, is_worth_a_write, waiting_of
from pyroclast_scheduler.explaining.answers import Answerer, answer_of, queue_rows
from pyroclast_scheduler.explaining.book import WaitingBook
from pyroclast_scheduler.explaining.changes import Priorities, Situation
from pyroclast_scheduler.explaining.estimates import Estimator, PassInput, begin
from pyroclast_scheduler.explaining.proofs import Prover, proved
from pyroclast_scheduler.explaining.trials import Engine, gang_of
from pyroclast_scheduler.session.outcome import Commit
from pyroclast_scheduler.session.ports import Ports
from tests.bench import scheduler as bench
from tests.scenarios.taking import take

NODES: Final = 1000
CPU: Final = 32
QUEUES: Final = 10
PODS: Final = 4
_NOW: Final = 1_800_000_000.0
_PART: Final = 0.05
_TURN: Final = 20
_STEP_SECONDS: Final = 0.2  # a step that is under way has ended after it


class World(bench.VirtualCluster):
    """A full cluster: Jobs that run on every node, and others that wait."""

    def __init__(self, waiting: int) -> None:
        super().__init__(bench.CONFIGURATION, [f"q{queue}" for queue in range(QUEUES)], [CPU] * NODES)
        self.book, self.now = WaitingBook(), _NOW
        self._made = 0
        self._running: list[str] = []
        for row in range(NODES):
            self._runs(f"r{row}", f"node-{row}")
        for _ in range(waiting):
            self._waits()

    def _group(self, name: str, pods: int, phase: str) -> None:
        body = msgspec.to_builtins(bench.group(name, pods, queue_name=f"q{hash(name) % QUEUES}"))
        body["metadata"]["annotations"] = {"scheduling.volcano.sh/running-estimate": "1h"}
        body["spec"]["minResources"] = {"cpu": str(pods * CPU // PODS), "memory": f"{pods}Gi"}
        body["status"]["phase"] = phase
        self._groups[name] = msgspec.convert(body, records.PodGroup)
        self.cache.group_changed(None, self._groups[name])

    def _runs(self, name: str, node: str) -> None:
        self._group(name, PODS, "Running")
        for i in range(PODS):
            made = bench.pod(name, i, millis=1000 * CPU // PODS)
            self.cache.pod_changed(None, bench.running(made, node, "2027-01-15T07:30:00Z"))
        self._running.append(name)

    def _waits(self) -> None:
        name = f"w{self._made}"
        self._made += 1
        size = 1 + self._made % 8
        self._group(name, size, "Pending")

    def change(self) -> None:
        """A Job ends, another one comes."""
        self.end(self._running.pop(0))
        self._waits()

    def timed(self) -> float:
        """One session; how long it took, in milliseconds of CPU."""
        commits: list[Commit] = []
        self.now += 1.0
        ports = Ports(self.now, commits.append, period=int(self.now - _NOW), waiting=self.book)
        snapshot = self.cache.snapshot()
        begun = time.thread_time()
        outcome = run_cycle(snapshot, bench.CONFIGURATION, actions=bench.ACTIONS, plugins=bench.PLUGINS, ports=ports, uid="b")
        took = (time.thread_time() - begun) * 1000
        take(self.cache, outcome)
        self.book.take(outcome.records, outcome.seen, self.now, since={})
        self.cache.prepare()
        return took

    def given(self) -> PassInput:
        """What a pass of estimates begins with."""
        return PassInput(self.book.copy(), self.cache.view(), {}, self.now)


def _sessions(world: World, count: int, quiet: threading.Event) -> list[float]:
    found = []
    for _ in range(count):
        world.change()
        quiet.clear()
        found.append(world.timed())
        quiet.set()
        time.sleep(0.01)
    return found


def _in_turn(world: World, count: int, quiet: threading.Event, is_on: threading.Event) -> tuple[list[float], list[float]]:
    """Sessions without and with estimates beside them, so many of each, in turn: what the machine does else meets both."""
    without, beside = list[float](), list[float]()
    for _ in range(count // _TURN):
        is_on.clear()
        time.sleep(_STEP_SECONDS)
        without += _sessions(world, _TURN, quiet)
        is_on.set()
        beside += _sessions(world, _TURN, quiet)
    return without, beside


def _beside(world: World, quiet: threading.Event, is_on: threading.Event, is_over: threading.Event, steps: list[float]) -> None:
    """Pass after pass while they are on, as the scheduler makes them."""
    estimator = Estimator()

    def timed(work: Callable[[], object]) -> object:
        is_on.wait()
        quiet.wait(1.0)
        begun = time.thread_time()
        found = work()
        steps.append((time.thread_time() - begun) * 1000)
        is_over.wait(steps[-1] / 1000 / _PART)
        return found

    while not is_over.is_set():
        given = world.given()
        made = begin(estimator, given)
        while not made.is_done and not is_over.is_set():
            timed(made.step)


def _line(name: str, values: list[float]) -> str:
    ordered = sorted(values)
    p99 = ordered[min(len(ordered) - 1, int(0.99 * len(ordered)))]
    return f"{name:<56} n={len(values):5}  p50 {statistics.median(values):8.2f} ms  p99 {p99:8.2f} ms\n"


def _question_times(world: World, count: int) -> tuple[list[float], list[float]]:
    facts = world.cache.jobs.all_facts()
    source = Answerer(world.book, facts, world.now, {}, lambda _: "no estimate is made", lambda _: None)
    keys = list(world.book)
    plain, tried = [], []
    for at in range(count):
        entry = world.book.get(keys[at * len(keys) // count])
        assert entry is not None
        begun = time.thread_time()
        having = source.holders(entry)
        source.namespaces(entry, having)
        answer_of(source, entry, lambda _: True, having)
        plain.append((time.thread_time() - begun) * 1000)
    queue_rows(source, "q0", lambda _: True, 0, 1000)
    engine = Engine(bench.CONFIGURATION, bench.ACTIONS, bench.PLUGINS, Ports(world.now, period=1))
    container = {"name": "c", "resources": {"requests": {"cpu": "8", "memory": "1Gi"}}}
    for at in range(count // 10):
        entry = world.book.get(keys[at * len(keys) * 10 // count])
        assert entry is not None
        task = {"name": "w", "replicas": 8, "template": {"spec": {"containers": [container]}}}
        body = {
            "metadata": {"namespace": "b", "name": entry.key[2:], "uid": "u", "creationTimestamp": "2026-01-01T00:00:00Z"},
            "spec": {"queue": entry.record.queue, "minAvailable": 8, "tasks": [task]},
        }
        begun = time.thread_time()
        case = Situation(body, gang_of(body, {}, 0), entry.code, entry.short, world.cache.view(), Priorities({}), None, world.now)
        proved(Prover(case, entry.key, engine, lambda _: 0, time.thread_time))
        tried.append((time.thread_time() - begun) * 1000)
    return plain, tried


def _writes(world: World) -> int:
    """Annotations that are worth a write when every Job has had its turn twice and nothing happens."""
    said = {key: waiting_of(world.book, entry) for key in world.book if (entry := world.book.get(key)) is not None}

    def is_due(key: str) -> bool:
        entry = world.book.get(key)
        return entry is not None and is_worth_a_write(said[key], waiting_of(world.book, entry))

    turns = Turns()
    rounds = 2 * len(said) // 250 + 2
    return sum(turns.next(world.book, is_due, world.now + at, most=250) is not None for at in range(rounds))


def main() -> int:
    """Print the figures; the exit status."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--waiting", type=int, default=10_000)
    parser.add_argument("--sessions", type=int, default=400)  # each ends one of the 1,000 Jobs that run
    options = parser.parse_args()
    world = World(options.waiting)
    world.timed()
    sys.stdout.write(f"{len(world.book)} Jobs wait in {len(world.book.queues)} queues on {NODES} nodes\n")
    quiet, is_on, is_over, steps = threading.Event(), threading.Event(), threading.Event(), list[float]()
    _sessions(world, 20, quiet)
    thread = threading.Thread(target=_beside, args=(world, quiet, is_on, is_over, steps))
    thread.start()
    without, beside = _in_turn(world, options.sessions, quiet, is_on)
    is_over.set()
    thread.join()
    sys.stdout.write(_line("a session, estimates off", without))
    sys.stdout.write(_line("a session, estimates on", beside))
    sys.stdout.write(_line("a scenario of 1,000 Jobs that wait, CPU", steps))
    plain, tried = _question_times(world, 500)
    sys.stdout.write(_line("an answer", plain))
    sys.stdout.write(_line("trials of changes", tried))
    sys.stdout.write(f"annotations worth a write while nothing happens: {_writes(world)}\n")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
