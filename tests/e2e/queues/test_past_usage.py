"""Fair share over time on a running control plane: two queues want all of it, and one of them used it all yesterday.

An hour passes by moving all that the recorder knows into the past. What it then writes to the queues, and what the scheduler
makes of that, is real. `PAST_USAGE_PLOT=FILE` keeps the plot.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from pyroclast.api.keys import QUEUE_PAST_USAGE, SCHEDULING_QUEUE_NAME
from pyroclast.api.past_usage import read_past_usage
from pyroclast_recorder.database.batches import Batch
from pyroclast_recorder.database.database import Database
from pyroclast_recorder.database.tables import pods
from pyroclast_recorder.following.past_usage import Used, past_usage
from pyroclast_scheduler.model.demand import weighed
from tests.bench.past_usage import Course, draw
from tests.e2e.support.cluster import Cluster, running, wait_until

HOUR = 3600
HALF_LIFE_HOURS = 24
STEP_HOURS = 3
NODES = 2
SLOTS = 8 * NODES
QUIET_SECONDS = 3
QUEUES = ("busy", "fresh")
CONFIGURATION = """
actions: "enqueue, allocate"
tiers:
- plugins: [{name: priority}, {name: gang}]
- plugins: [{name: predicates}, {name: proportion, arguments: {pastUsageWeight: 1}}]
"""


@dataclass(frozen=True, slots=True)
class Past:
    """So many cores, held by a queue from `begin` to `end` hours ago; `name` is that of the pod that tells it."""

    name: str
    queue: str
    cores: int
    begin: int
    end: int

    def row(self, now: int) -> dict[str, Any]:
        end = now - self.end * HOUR
        row = {"uid": self.name, "name": self.name, "namespace": "yesterday", "queue": self.queue}
        row |= {"requests": json.dumps({"cpu": 1000 * self.cores}), "phase": "Succeeded", "bound": now - self.begin * HOUR}
        return {**row, "finished": end, "released_high": end}

    def used(self, now: int) -> Iterator[Used]:
        for back in range(self.end + 1, self.begin + 1):
            yield Used(now - back * HOUR, self.queue, "unknown", "cpu", 1000 * self.cores * HOUR)


@dataclass(slots=True)
class World:
    """The control plane, and what was held before now."""

    cluster: Cluster
    past: list[Past] = field(default_factory=list)
    hours: int = 0

    def step(self) -> float:
        """The part of the cluster that `fresh` has; then some hours pass."""
        self.cluster.kubectl("delete", "pods", "--all", "-n", "default", "--wait=true")
        wait_until(lambda: not self.cluster.get("podgroup", "-n", "default")["items"], "the PodGroups to go with their pods")
        with self.cluster.standing_aside("scheduler"):
            self._write()
            self._submit()
        placed = self._settled()
        moved = [Past(each.name, each.queue, each.cores, each.begin + STEP_HOURS, each.end + STEP_HOURS) for each in self.past]
        self.past = moved + [Past(f"{queue}-{self.hours}", queue, placed[queue], STEP_HOURS, 0) for queue in QUEUES]
        self.hours += STEP_HOURS
        return placed["fresh"] / SLOTS

    def expected(self) -> float:
        """The part that the rule gives to `fresh`, from what the recorder's own sums say."""
        held = self._held(int(time.time()))
        weights = weighed(np.ones(len(QUEUES)), np.array([float(held[queue]) for queue in QUEUES]), 1.0)
        return float(weights[1] / weights.sum())

    def _held(self, now: int) -> dict[str, int]:
        """Millicores that each queue held on average."""
        found = past_usage((used for each in self.past for used in each.used(now)), now, HALF_LIFE_HOURS * HOUR)
        return {queue: millicores(found[queue].held) if queue in found else 0 for queue in QUEUES}

    def _write(self) -> None:
        """Have the recorder know the past, and tell it to the queues."""
        uid = self.cluster.get("namespace", "kube-system")["metadata"]["uid"]
        now = int(time.time())
        asyncio.run(write(f"sqlite:///{self.cluster.data}/history.db", uid, [each.row(now) for each in self.past], self.hours))
        self.cluster.kill("recorder")  # it writes when it starts, and then once a minute
        held = self._held(now)
        wait_until(
            lambda: all(abs(self._told(queue) - held[queue]) <= 0.05 * held[queue] + 50 for queue in QUEUES),
            f"the queues to be told that they held {held} millicores",
        )

    def _told(self, queue: str) -> int:
        text = (self.cluster.get("queue", queue)["metadata"].get("annotations") or {}).get(QUEUE_PAST_USAGE)
        return millicores(read_past_usage(text).held) if text else -1_000_000

    def _submit(self) -> None:
        """Both queues want the whole cluster; all their pods are there before the scheduler looks."""
        names = [(queue, f"{queue}-{self.hours}-{number}") for number in range(SLOTS) for queue in QUEUES]
        body = {"apiVersion": "v1", "kind": "List", "items": [pod(name, queue) for queue, name in names]}
        self.cluster.create(json.dumps(body))
        wait_until(lambda: len(self.cluster.get("podgroup", "-n", "default")["items"]) == len(names), "a PodGroup for each pod")

    def _settled(self) -> Counter[str]:
        """The pods that are placed, once no more are: where the parts of both are no whole cores, one core is left to nobody."""
        wait_until(lambda: self._placed().total() >= SLOTS - 1, "all slots to be taken but one")
        seen = [self._placed()]
        while len(seen) < QUIET_SECONDS or seen[-1] != seen[-QUIET_SECONDS]:
            time.sleep(1)
            seen.append(self._placed())
        return seen[-1]

    def _placed(self) -> Counter[str]:
        found = self.cluster.get("pods", "-n", "default")["items"]
        return Counter(each["metadata"]["name"].partition("-")[0] for each in found if each["spec"].get("nodeName"))


async def write(url: str, cluster: str, rows: list[dict[str, Any]], version: int) -> None:
    """Merge rows of pods: a later version moves them into the past, as the first of two times counts."""
    database = Database(url, cluster)
    batch = Batch(cluster)
    for row in rows:
        batch.add(pods, version + 1, row)
    await database.write(batch, int(time.time()))
    await database.close()


def millicores(held: dict[str, str]) -> int:
    return int(held.get("cpu", "0m").removesuffix("m"))


def pod(name: str, queue: str) -> dict[str, Any]:
    container = {"name": "c", "image": "busybox", "command": ["sleep", "600"], "resources": {"requests": {"cpu": "1"}}}
    spec = {"schedulerName": "volcano", "terminationGracePeriodSeconds": 0, "containers": [container]}
    metadata = {"name": name, "annotations": {SCHEDULING_QUEUE_NAME: queue}}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec}


@pytest.fixture
def world(control_plane: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[World]:
    monkeypatch.setenv("PYROCLAST_PAST_USAGE_HALF_LIFE", f"{HALF_LIFE_HOURS}h")
    with contextlib.ExitStack() as stack:
        cluster = stack.enter_context(running(control_plane, tmp_path, nodes=NODES, scheduler=CONFIGURATION))
        for name in QUEUES:
            body = {"apiVersion": "scheduling.volcano.sh/v1beta1", "kind": "Queue", "metadata": {"name": name}}
            cluster.create(json.dumps({**body, "spec": {"weight": 1}}))
        yield World(cluster)


@pytest.mark.parametrize(
    "steps",
    [pytest.param(3, marks=pytest.mark.timeout(600)), pytest.param(12, marks=[pytest.mark.soak, pytest.mark.timeout(1200)])],
)
def test_queue_with_past_usage_gets_a_smaller_share_that_grows_as_usage_evens_out(
    world: World, steps: int, tmp_path: Path
) -> None:
    even = world.step()
    assert even == 0.5, "nobody has a past"
    world.past, parts = [Past("all", "busy", SLOTS, 24, 0)], []
    for _ in range(steps):
        expected = world.expected()
        parts.append(world.step())
        assert abs(parts[-1] - expected) <= 1 / SLOTS + 0.01, f"the rule gives {expected:.3f}; so far {parts}"
    assert parts[0] >= 1 - 1 / SLOTS
    assert parts[-1] < parts[0], "the queue that waited loses its precedence as it catches up"
    plot = Path(os.environ.get("PAST_USAGE_PLOT") or tmp_path / "plot.svg")
    plot.write_text(draw([Course(1, [part for part in parts for _ in range(STEP_HOURS)])]))
    assert plot.read_text().count("<path") == 2
