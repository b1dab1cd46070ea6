"""A large Job behind small ones that say how long they run: it is promised a time, and a restart takes nothing from it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.e2e.support.cluster import Cluster, wait_until
from tests.e2e.support.contention import Stream
from tests.e2e.support.reserving import configure, contended, events, group_of, reservation

NODES = 40
HALF = NODES // 2
LARGE = "volcano.sh/job-name=large"


@pytest.fixture
def cluster(control_plane: str, tmp_path: Path) -> Iterator[Cluster]:
    """A control plane of the test's own, since its nodes are to be full."""
    with contended(control_plane, tmp_path, nodes=NODES) as cluster:
        yield cluster


def locked(cluster: Cluster, group: str) -> set[str]:
    """Names of the nodes that are kept for the large Job."""
    locks = reservation(cluster, group).get("locks", [])
    assert isinstance(locks, list)
    return {each["node"] for each in locks}


@pytest.mark.timeout(900)
def test_reservation_gets_a_promised_start_and_survives_a_scheduler_restart(cluster: Cluster) -> None:
    stream = Stream(cluster)
    stream.until(lambda: stream.count("Running") >= HALF, "the small Jobs to fill the cluster", seconds=120)
    stream.submit("large", 600, replicas=HALF)
    group = group_of(cluster, "large")
    assert not stream.count("Running", of=LARGE), "nobody keeps nodes for it"

    configure(cluster, "locksPerCycle: 2")
    stream.until(lambda: reservation(cluster, group).get("locks"), "nodes to be kept for the large Job", seconds=60)
    stream.until(lambda: events(cluster, group, "ReservationTarget"), "the event of it", seconds=60)
    cluster.kill("scheduler")  # the next one knows what stands in the annotation only
    kept, since = locked(cluster, group), reservation(cluster, group).get("since")
    stream.until(lambda: events(cluster, group, "ReservationPromised"), "a promise", seconds=120)
    stream.until(lambda: locked(cluster, group) > kept, "the next leader to keep more nodes", seconds=60)
    assert reservation(cluster, group)["since"] == since, "for the same target"
    stream.until(lambda: stream.count("Running", of=LARGE) == HALF, "the large Job to run", seconds=300)
    assert stream.count("Pending"), "small Jobs still wait: it did not just outlast them"
    wait_until(lambda: not reservation(cluster, group), "the nodes to be given back")
    wait_until(lambda: events(cluster, group, "ReservationReleased"), "the event of it")
