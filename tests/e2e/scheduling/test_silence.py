"""Ten thousand Jobs that wait: the programs write nothing while nothing happens, and little while others end.

`make soak` runs it. WAITING_JOBS and SILENCE_SECONDS take other sizes. What was counted is printed: `pytest -s` shows it.
"""

from __future__ import annotations

import asyncio
import json
import os
import time
from collections import Counter
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import Any

import pytest

from pyroclast.api.keys import WAITING
from pyroclast.api.types import JOBS, POD_GROUPS
from pyroclast.kube.basics.deadline import Deadline
from pyroclast.kube.credentials.config import load_config
from pyroclast.kube.http.client import Client
from tests.e2e.jobs.test_first_light import job
from tests.e2e.support.cluster import Cluster, running, wait_until

pytestmark = [pytest.mark.soak, pytest.mark.timeout(7200)]
WAITING_JOBS = int(os.environ.get("WAITING_JOBS", "10000"))
SILENCE_SECONDS = float(os.environ.get("SILENCE_SECONDS", "600"))
RUNNING_JOBS = 60
NODES = 15
"""As many as the Jobs that run fill."""
QUIET_SECONDS = 330
"""Nothing was written for so long: all is said of the Jobs that wait. An annotation rests for 300 s between two writes."""
CREATE_SECONDS = 600.0
NAMESPACE = "default"
WRITES = {"create", "update", "patch", "delete"}
OURS = ("pyroclast-", "volcano-")


@pytest.fixture
def cluster(control_plane: str, tmp_path: Path) -> Iterator[Cluster]:
    with running(control_plane, tmp_path, nodes=NODES) as cluster:
        yield cluster


def manifest(name: str) -> Any:
    """A Job whose pod asks for a quarter of a node, and that is said to run for two hours."""
    return json.loads(job(name, command=["sleep", "7200"], runningEstimate="2h", cpu="2"))


def writes(cluster: Cluster, since: int) -> list[dict[str, Any]]:
    """What our programs wrote after the first `since` requests, Leases and reviews apart."""
    return [
        event
        for event in islice(cluster.audit.events(), since, None)
        if event["verb"] in WRITES
        and any(f":{prefix}" in event["user"]["username"] for prefix in OURS)
        and event.get("objectRef", {}).get("resource") not in ("leases", "tokenreviews", "subjectaccessreviews")
    ]


def requests(cluster: Cluster) -> int:
    return sum(1 for _ in cluster.audit.events())


async def create(cluster: Cluster, names: list[str]) -> None:
    async with Client(load_config(str(cluster.kubeconfig)), max_in_flight=16) as client:
        deadline = Deadline.after(CREATE_SECONDS)
        await asyncio.gather(*(client.create(JOBS, manifest(name), namespace=NAMESPACE, deadline=deadline) for name in names))


async def groups(cluster: Cluster) -> list[dict[str, Any]]:
    async with Client(load_config(str(cluster.kubeconfig))) as client:
        found, _ = await client.list(POD_GROUPS, NAMESPACE)
        return found


def phase(group: dict[str, Any]) -> str:
    return str(group.get("status", {}).get("phase", ""))


def annotations(cluster: Cluster) -> dict[str, str]:
    """What the PodGroups of those that wait say of why they do."""
    found = [each["metadata"] for each in asyncio.run(groups(cluster))]
    return {each["name"]: each["annotations"][WAITING] for each in found if WAITING in each.get("annotations", {})}


def test_waiting_jobs_cause_no_writes_while_idle_and_few_while_others_end(cluster: Cluster) -> None:
    asyncio.run(create(cluster, [f"runs-{number}" for number in range(RUNNING_JOBS)]))
    wait_until(
        lambda: [phase(each) for each in asyncio.run(groups(cluster))] == ["Running"] * RUNNING_JOBS,
        "the first Jobs to fill the nodes",
        seconds=120,
    )
    for first in range(0, WAITING_JOBS, 500):
        asyncio.run(create(cluster, [f"waits-{number}" for number in range(first, min(first + 500, WAITING_JOBS))]))
    wait_until(lambda: len(annotations(cluster)) == WAITING_JOBS, "all to say why they wait", seconds=1800)
    await_silence(cluster)

    before, said = requests(cluster), annotations(cluster)
    time.sleep(SILENCE_SECONDS)
    changed = [(each, said.get(name)) for name, each in annotations(cluster).items() if each != said.get(name)]
    assert kinds(writes(cluster, before)) == {}, changed[:5]

    before, waiting = requests(cluster), annotations(cluster)
    began = time.monotonic()
    for number in range(RUNNING_JOBS):
        cluster.kubectl("delete", "vcjob", f"runs-{number}", "-n", NAMESPACE, "--wait=false")
        time.sleep(max(0.0, began + number + 1 - time.monotonic()))
    seconds = time.monotonic() - began
    written = writes(cluster, before)
    still = waiting.keys() & annotations(cluster).keys()
    told = [event for event in written if is_annotation(event) and event["objectRef"]["name"] in still]
    print(
        f"one Job ended each second for {seconds:.0f} s: {kinds(written)}, {len(told)} of them annotations of Jobs that wait on"
    )
    assert len(waiting.keys() - still) >= RUNNING_JOBS / 2, "others start in the place of those that ended"
    assert len(told) <= seconds + 1


def await_silence(cluster: Cluster) -> None:
    """Wait until our programs have written nothing for a while."""
    deadline = time.monotonic() + 1800
    while time.monotonic() < deadline:
        before = requests(cluster)
        time.sleep(QUIET_SECONDS)
        if not writes(cluster, before):
            return
    raise AssertionError(f"still written: {kinds(writes(cluster, before))}")


def is_annotation(event: dict[str, Any]) -> bool:
    """Whether a request changed a PodGroup's annotations alone."""
    about = event["objectRef"]
    return about["resource"] == "podgroups" and event["verb"] == "patch" and not about.get("subresource")


def kinds(events: list[dict[str, Any]]) -> Counter[str]:
    """How often what was written."""
    return Counter(
        f"{event['verb']} {event['objectRef']['resource']}/{event['objectRef'].get('subresource', '')}" for event in events
    )
