"""A cluster that small Jobs keep full, and what its pods tell afterwards of who was where when."""

from __future__ import annotations

import itertools
import json
import statistics
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from tests.e2e.jobs.test_first_light import job
from tests.e2e.support.cluster import Cluster

SECONDS = (5, 40, 4, 32, 5, 44, 5)
"""How long small Jobs run, in turn: most are short, yet four of five nodes hold a long one at any time. So half of the nodes
never get free at once, also where a slow machine lets many short ones end together."""

LONG = 30
SPREAD = 20
"""By how much longer some of the long ones are than others: those that filled the nodes at the start do not end together."""

SMALL = "size=small"  # the label of their pods
PODS = 5  # of a small Job, each of which takes a node
WAITING = 180  # pods that always wait, at least: a slow machine makes none for a while
BATCH = 12  # Jobs that are made at once
LOOK_SECONDS = 2.0
LATENCY = 5  # seconds that an honest estimate allows a node to begin a pod and to tell of its end


@dataclass(frozen=True, slots=True)
class Stay:
    """A pod on a node; `start` is infinite while it waits, `end` while it runs. Seconds since the epoch."""

    job: str
    created: float
    start: float
    end: float


class Stream:
    """Small Jobs of pods that take a node each, made so fast that some always wait.

    `said`: how their estimates compare to how long they run, in turn; empty: they give none.
    """

    def __init__(self, cluster: Cluster, *, said: Sequence[float] = (1.0,)) -> None:
        self.said = said
        self._cluster = cluster
        self._numbers = itertools.count()
        self._last = 0.0
        self._cpu = str(cluster.get("nodes")["items"][0]["status"]["allocatable"]["cpu"])

    def submit(self, name: str, seconds: int, *, replicas: int, annotations: dict[str, str] | None = None) -> None:
        """A gang of `replicas` pods, each of which takes a node."""
        made = self._manifest(name, seconds, replicas=replicas, minimum=replicas)
        made["metadata"]["annotations"] = annotations or {}
        self._create([made])

    def until(self, holds: Callable[[], object], what: str, *, seconds: float) -> None:
        """Go on, until `holds` says yes.

        Raises:
            AssertionError: it did not within `seconds`.
        """
        deadline = time.monotonic() + seconds
        while True:
            if time.monotonic() - self._last > LOOK_SECONDS:
                self._last = time.monotonic()
                self._flow()
            if holds():
                return
            assert time.monotonic() < deadline, f"waited {seconds:.0f} s for {what}"
            time.sleep(1.0)

    def count(self, phase: str, *, of: str = SMALL) -> int:
        """Pods in `phase` whose labels pass `of`."""
        where = ("-l", of, "--field-selector", f"status.phase={phase}")
        return len(self._cluster.get("pods", "-n", "default", *where)["items"])

    def _flow(self) -> None:
        if self.count("Pending") < WAITING:
            numbers = itertools.islice(self._numbers, BATCH)
            self._create([self._manifest(f"small-{i}", _length(i), replicas=PODS, minimum=1, number=i) for i in numbers])

    def _manifest(self, name: str, seconds: int, *, replicas: int, minimum: int, number: int | None = None) -> dict[str, Any]:
        estimate = {}
        if self.said and number is not None:
            estimate = {"runningEstimate": f"{int((seconds + LATENCY) * self.said[number % len(self.said)])}s"}
        made: dict[str, Any] = json.loads(
            job(name, command=["sleep", str(seconds)], replicas=replicas, min_available=minimum, cpu=self._cpu, **estimate)
        )
        template = made["spec"]["tasks"][0]["template"]
        template["metadata"] = {"labels": {} if number is None else dict([SMALL.split("=")])}
        return made

    def _create(self, items: list[dict[str, Any]]) -> None:
        text = json.dumps({"apiVersion": "v1", "kind": "List", "items": items})
        self._cluster.create(text)


def _length(number: int) -> int:
    """How long a small Job runs, in seconds."""
    seconds = SECONDS[number % len(SECONDS)]
    return seconds + 7 * number % SPREAD if seconds > LONG else seconds


def stays(cluster: Cluster) -> list[Stay]:
    """Every pod of the Jobs of namespace default."""
    found = []
    for pod in cluster.get("pods", "-n", "default")["items"]:
        metadata, status = pod["metadata"], pod.get("status", {})
        states = [each.get("state", {}) for each in status.get("containerStatuses", [])]
        end = next((each["terminated"]["finishedAt"] for each in states if "terminated" in each), None)
        times = metadata["creationTimestamp"], status.get("startTime"), end
        found.append(Stay(metadata["labels"]["volcano.sh/job-name"], *map(_seconds, times)))
    return found


def lengths(found: Iterable[Stay]) -> list[float]:
    """How long the small Jobs' pods that have ended were on their nodes, in seconds."""
    return [each.end - each.start for each in found if each.job.startswith("small-") and each.end < float("inf")]


def median(found: Iterable[Stay]) -> float:
    """The median duration of small Jobs, in seconds."""
    return statistics.median(lengths(found))


def utilisation(found: Iterable[Stay], begin: float, end: float, *, nodes: int) -> float:
    """The part of all node-seconds from `begin` to `end` in which a pod was there."""
    used = sum(max(0.0, min(each.end, end) - max(each.start, begin)) for each in found)
    return used / (nodes * (end - begin))


def waiting(found: Iterable[Stay], at: float) -> int:
    """How many pods of small Jobs waited at a time."""
    return sum(each.created < at < each.start for each in found if each.job.startswith("small-"))


def most_idle(found: Sequence[Stay], begin: float, end: float, *, nodes: int) -> int:
    """The largest number of nodes that were idle at once, by the second."""
    return max(nodes - sum(each.start <= at < each.end for each in found) for at in range(int(begin) + 1, int(end)))


def _seconds(text: str | None) -> float:
    return datetime.fromisoformat(text).timestamp() if text else float("inf")
