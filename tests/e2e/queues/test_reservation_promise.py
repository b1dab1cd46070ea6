"""A large Job behind small ones that say how long they run: it is promised a time, and a restart takes nothing from it."""

from __future__ import annotations

import itertools
import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.e2e.jobs.test_first_light import job
from tests.e2e.support.cluster import Cluster, wait_until
from tests.e2e.support.reserving import configure, contended, events, group_of, reservation

NODES = 40
HALF = NODES // 2
SECONDS = (20, 34, 26, 40, 23, 37, 30)  # of small Jobs: long enough that a slow machine does not let half of them end at once


@pytest.fixture
def cluster(control_plane: str, tmp_path: Path) -> Iterator[Cluster]:
    """A control plane of the test's own, since its nodes are to be full."""
    with contended(control_plane, tmp_path, nodes=NODES) as cluster:
        yield cluster


class Stream:
    """Small Jobs of five pods, each of which takes a node; `flow` makes so many that some always wait."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self._numbers = itertools.count()
        self.cpu = str(cluster.get("nodes")["items"][0]["status"]["allocatable"]["cpu"])

    def manifest(self, name: str, seconds: int, *, replicas: int, minimum: int) -> dict[str, object]:
        estimate = f"{seconds + 5}s"  # until the node has begun and told the end
        command = ["sleep", str(seconds)]
        made = json.loads(job(name, command=command, replicas=replicas, min_available=minimum, runningEstimate=estimate))
        container = made["spec"]["tasks"][0]["template"]["spec"]["containers"][0]
        container["resources"]["requests"]["cpu"] = self.cpu
        return dict(made)

    def submit(self, name: str, seconds: int, *, replicas: int, minimum: int = 1) -> None:
        text = json.dumps(self.manifest(name, seconds, replicas=replicas, minimum=minimum))
        self._cluster.create(text)

    def count(self, phase: str, *, of: str = "!=large") -> int:
        """Pods in `phase` of the small Jobs, or of those whose name passes `of`."""
        where = ("-l", f"volcano.sh/job-name{of}", "--field-selector", f"status.phase={phase}")
        return len(self._cluster.get("pods", "-n", "default", *where)["items"])

    def flow(self) -> int:
        """Make more where too few wait; how many wait."""
        waiting = self.count("Pending")
        if waiting < NODES:
            names = list(itertools.islice(self._numbers, NODES // 5))
            lengths = itertools.cycle(SECONDS)
            made = zip(names, itertools.islice(lengths, names[0] % len(SECONDS), None), strict=False)
            items = [self.manifest(f"small-{i}", length, replicas=5, minimum=1) for i, length in made]
            text = json.dumps({"apiVersion": "v1", "kind": "List", "items": items})
            self._cluster.create(text)
        return waiting


def locked(cluster: Cluster, group: str) -> set[str]:
    """Names of the nodes that are kept for the large Job."""
    locks = reservation(cluster, group).get("locks", [])
    assert isinstance(locks, list)
    return {each["node"] for each in locks}


@pytest.mark.timeout(900)
def test_reservation_gets_a_promised_start_and_survives_a_scheduler_restart(cluster: Cluster) -> None:
    stream = Stream(cluster)
    stream.flow()
    wait_until(lambda: stream.flow() and stream.count("Running") >= HALF, "the small Jobs to fill the cluster", seconds=120)
    stream.submit("large", 600, replicas=HALF, minimum=HALF)
    group = group_of(cluster, "large")
    assert stream.count("Running", of="=large") == 0, "nobody keeps nodes for it"

    configure(cluster, "locksPerCycle: 2")
    wait_until(
        lambda: stream.flow() >= 0 and reservation(cluster, group).get("locks"), "nodes to be kept for the large Job", seconds=60
    )
    wait_until(lambda: stream.flow() >= 0 and events(cluster, group, "ReservationTarget"), "the event of it", seconds=60)
    cluster.kill("scheduler")  # the next one knows what stands in the annotation only
    kept, since = locked(cluster, group), reservation(cluster, group).get("since")
    wait_until(lambda: stream.flow() >= 0 and events(cluster, group, "ReservationPromised"), "a promise", seconds=120)
    wait_until(lambda: stream.flow() >= 0 and locked(cluster, group) > kept, "the next leader to keep more nodes", seconds=60)
    assert reservation(cluster, group)["since"] == since, "for the same target"
    wait_until(lambda: stream.flow() >= 0 and stream.count("Running", of="=large") == HALF, "the large Job to run", seconds=300)
    assert stream.count("Pending"), "small Jobs still wait: it did not just outlast them"
    wait_until(lambda: not reservation(cluster, group), "the nodes to be given back")
    wait_until(lambda: events(cluster, group, "ReservationReleased"), "the event of it")
