"""A large Job against a stream of small ones that never lets half of the nodes be idle: it starts once nodes are kept for it."""

from __future__ import annotations

import itertools
import sys
import time
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tests.e2e.support.cluster import Cluster, wait_until
from tests.e2e.support.contention import SECONDS, Stay, Stream, lengths, median, most_idle, stays, utilisation, waiting
from tests.e2e.support.reserving import HALF, NAMED, NODES, PERIOD, configure, contended, events, group_of, reservation, tells_why

FULL = NODES * 9 // 10  # running pods; the others are on their way
MEDIANS = 10  # durations of a small Job that a large one waits in vain
LATENCY = 10.0  # seconds in which nodes and scheduler take notice, on a slow machine
SHORT = 15  # seconds that a large Job runs
ORDERS = ("capacity", "idle")
PACES = {"1": HALF, "4": -(-HALF // 4), "all": 1}
"""`locksPerCycle`, and in how many periods enough nodes for a large Job are locked."""


@pytest.fixture
def cluster(control_plane: str, tmp_path: Path) -> Iterator[Cluster]:
    with contended(control_plane, tmp_path) as cluster:
        yield cluster


@pytest.fixture
def stream(cluster: Cluster) -> Stream:
    """Small Jobs that fill all nodes."""
    stream = Stream(cluster)
    fill(stream)
    return stream


def fill(stream: Stream) -> None:
    stream.until(lambda: stream.count("Running") >= FULL, "the nodes to be full", seconds=180)


def start_of(found: Sequence[Stay], job: str) -> float:
    """When the last pod of a large Job began; infinite as long as one waits."""
    return max(each.start for each in found if each.job == job)


def has_begun(stream: Stream, job: str) -> bool:
    return sum(stream.count(phase, of=f"volcano.sh/job-name={job}") for phase in ("Running", "Succeeded")) == HALF


@pytest.mark.timeout(900)
def test_large_job_starves_behind_small_jobs_until_nodes_are_reserved_for_it(cluster: Cluster, stream: Stream) -> None:
    stream.submit("large", SHORT, replicas=HALF)
    came = time.time()
    gone_by = lambda: time.time() > came + MEDIANS * sorted(SECONDS)[len(SECONDS) // 2]  # noqa: E731
    stream.until(gone_by, "many small Jobs to go by", seconds=600)
    stream.until(lambda: time.time() > came + MEDIANS * median(stays(cluster)), "10 times the median duration", seconds=600)
    found, now = stays(cluster), time.time()
    assert most_idle(found, came, now, nodes=NODES) < HALF
    assert all(each.start > now for each in found if each.job == "large"), "nobody keeps nodes for it"

    configure(cluster, "locksPerCycle: 4, fill: false")
    group = group_of(cluster, "large")
    stream.until(lambda: reservation(cluster, group).get("locks"), "nodes to be kept for the large Job", seconds=60)
    since = reservation(cluster, group)["since"]
    gauge = f'pyroclast_reservation_nodes{{job="default/{group}'
    shown = {
        "metrics": lambda: gauge in cluster.metrics("scheduler"),
        "waiting pods": lambda: tells_why(cluster, group),
    }
    missing = set(shown)

    def begins() -> bool:
        missing.difference_update([each for each in missing if shown[each]()])
        return has_begun(stream, "large")

    stream.until(begins, "the large Job to start", seconds=300)
    assert not missing, "where users look nodes were said to be kept"
    found = stays(cluster)
    start = start_of(found, "large")
    assert start - since <= max(lengths(found)) + HALF * PERIOD
    assert waiting(found, start), "it did not just outlast the small ones"
    stream.until(lambda: not reservation(cluster, group), "the nodes to be given back", seconds=60)
    stream.until(lambda: gauge not in cluster.metrics("scheduler"), "the metrics to say so", seconds=60)

    for reason in ("ReservationTarget", "ReservationReleased"):  # events are sent in turn, and those of the small Jobs are many
        wait_until(lambda: events(cluster, group, reason), f"the event {reason}", seconds=180)  # noqa: B023


def until_begun(cluster: Cluster, stream: Stream, job: str, group: str) -> list[dict[str, Any]]:
    """What the PodGroup of a large Job said until it began, in order."""
    seen: list[dict[str, Any]] = []

    def begins() -> bool:
        found = reservation(cluster, group)
        seen.extend([found] if found else [])
        return has_begun(stream, job)

    stream.until(begins, f"{job} to start", seconds=300)
    return seen


def first_promise(seen: Iterable[dict[str, Any]]) -> float | None:
    return next((float(each["promise"]) for each in seen if each.get("promise")), None)


@dataclass(frozen=True)
class Run:
    """A named large Job under one configuration. `said`: what the small Jobs' estimates are of the truth, in turn."""

    name: str
    arguments: str | None
    periods: int | None = None
    said: tuple[float, ...] = (1.0,)


RUNS = [
    Run("none", None),
    *(
        Run(f"{order}-{pace}", f"nodeOrder: {order}, locksPerCycle: {pace}, fill: false", periods)
        for order, (pace, periods) in itertools.product(ORDERS, PACES.items())
    ),
    Run("honest", "locksPerCycle: 4", PACES["4"]),
    Run("wrong", "locksPerCycle: 4", None, (0.5, 2.0)),
]


@pytest.mark.soak
@pytest.mark.timeout(1800)
def test_reserved_large_job_starts_in_time_with_every_node_order_and_lock_pace(cluster: Cluster, stream: Stream) -> None:
    """One line each (`-s` shows them): from the choice to the start, and the utilisation until then."""
    for run in RUNS:
        stream.said = run.said
        configure(cluster, None)
        fill(stream)
        came = time.time()
        if run.arguments is None:
            stream.until(lambda: time.time() > came + 60, "small Jobs to go by", seconds=300)  # noqa: B023
            report(run, stays(cluster), came, time.time())
            continue
        configure(cluster, run.arguments)
        stream.submit(run.name, SHORT, replicas=HALF, annotations=NAMED)
        group = group_of(cluster, run.name)
        stream.until(lambda: reservation(cluster, group).get("locks"), f"{run.name}: locks", seconds=60)  # noqa: B023
        since = reservation(cluster, group)["since"]
        seen = until_begun(cluster, stream, run.name, group)
        found = stays(cluster)
        start = start_of(found, run.name)
        report(run, found, since, start, first_promise(seen))
        assert waiting(found, start)
        if run.periods is not None:
            assert start - since <= max(lengths(found)) + run.periods * PERIOD + LATENCY
        stream.until(lambda: not reservation(cluster, group), f"{run.name}: release", seconds=60)  # noqa: B023


def report(run: Run, found: Sequence[Stay], begin: float, end: float, promise: float | None = None) -> None:
    late = "" if promise is None else f", {end - promise:+.0f} s after its first promise"
    sys.stdout.write(
        f"{run.name}: {end - begin:.0f} s{late}, utilisation {utilisation(found, begin, end, nodes=NODES):.3f}, "
        f"most idle {most_idle(found, begin, end, nodes=NODES)}, longest small {max(lengths(found)):.0f} s\n"
    )
    sys.stdout.flush()
