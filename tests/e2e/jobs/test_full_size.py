"""The largest flow and the largest HyperJob, from their creation to their end under all programs: what is stored, and how often.

`make soak` runs it. FLOW_ENTRIES and HYPER_JOB_JOBS take other sizes. What was measured is printed: `pytest -s` shows it.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import time
from collections import Counter
from collections.abc import Awaitable, Callable, Iterable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

import pytest

from pyroclast.api.types import HYPER_JOBS, JOB_FLOWS, JOB_TEMPLATES, JOBS, Key, ResourceType
from pyroclast.kube.basics.errors import AlreadyExists, KubeError, is_transient
from pyroclast.kube.credentials.config import load_config
from pyroclast.kube.http.client import Client
from tests.e2e.jobs.test_first_light import job
from tests.e2e.support.cluster import Cluster, kubectl_is_there, running

pytestmark = [pytest.mark.soak, pytest.mark.timeout(7200)]
FLOW_ENTRIES = int(os.environ.get("FLOW_ENTRIES", "5000"))
HYPER_JOB_JOBS = int(os.environ.get("HYPER_JOB_JOBS", "10000"))
NODES = 16
NAMESPACE = "default"
AT_ONCE = 20
STORED_BYTES = 1_500_000
"""What etcd takes of one object."""
WRITES_PER_SECOND = 2.0
"""Of the status of one flow or HyperJob: each tells of all Jobs that changed since the last."""
LOOK_SECONDS = 5.0
MOST_TRIES = 20
END_SECONDS = 6000.0

T = TypeVar("T")

SPEC: dict[str, Any] = json.loads(job("any", command=["sleep", "1"]))["spec"]


@pytest.fixture
def cluster(control_plane: str, tmp_path: Path) -> Any:
    if not kubectl_is_there():
        pytest.skip("kubectl is not on this machine")
    with running(control_plane, tmp_path, nodes=NODES) as cluster:
        yield cluster


def test_jobflow_of_5000_entries_runs_every_job_once(cluster: Cluster) -> None:
    """The first entry comes before all others; every Job runs once, and the flow is told of each."""
    names = [f"entry-{number}" for number in range(FLOW_ENTRIES)]
    flows = [{"name": names[0]}, *({"name": name, "dependsOn": {"targets": [names[0]]}} for name in names[1:])]
    bodies = [{"metadata": {"name": name}, "spec": SPEC} for name in names]
    end = asyncio.run(followed(cluster, JOB_FLOWS, {"flows": flows}, is_flow_over, (JOB_TEMPLATES, bodies)))
    assert end.large["status"]["state"]["phase"] == "Succeed"
    assert {row["name"] for row in end.large["status"]["jobStatusList"]} == {f"large-{name}" for name in names}
    check(cluster, end, "jobflows", FLOW_ENTRIES)


def test_hyperjob_of_10000_jobs_runs_every_job_once(cluster: Cluster) -> None:
    entry = {"name": "a", "replicas": HYPER_JOB_JOBS, "templateSpec": SPEC}
    end = asyncio.run(followed(cluster, HYPER_JOBS, {"replicatedJobs": [entry]}, is_hyper_job_over))
    (told,) = end.large["status"]["replicatedJobsStatus"]
    assert told["name"] == "a"
    check(cluster, end, "hyperjobs", HYPER_JOB_JOBS)


@dataclass(frozen=True, slots=True)
class End:
    """How it was when the large object was over: that object, and its Jobs by phase."""

    seconds: float
    large: dict[str, Any]
    phases: Counter[str]


async def followed(
    cluster: Cluster,
    kind: ResourceType,
    spec: dict[str, Any],
    is_over: Callable[[dict[str, Any]], bool],
    before: tuple[ResourceType, list[dict[str, Any]]] | None = None,
) -> End:
    """Create the large object, after what it needs `before`, and wait until it is over."""
    async with Client(load_config(str(cluster.kubeconfig))) as client:

        async def create(kind: ResourceType, body: dict[str, Any]) -> None:
            whole = {"apiVersion": kind.api_version, "kind": kind.kind, **body}
            with contextlib.suppress(AlreadyExists):  # by an earlier try, whose answer was lost
                await insisted(partial(client.create, kind, whole, namespace=NAMESPACE))

        if before is not None:
            for batch in batches(before[1], AT_ONCE):
                await asyncio.gather(*(create(before[0], body) for body in batch))
        await create(kind, {"metadata": {"name": "large"}, "spec": spec})
        began = time.monotonic()
        while (seconds := time.monotonic() - began) < END_SECONDS:
            large = await insisted(partial(client.get, kind, Key(NAMESPACE, "large")))
            if is_over(large):
                jobs, _ = await insisted(partial(client.list, JOBS, NAMESPACE))
                return End(seconds, large, Counter(each["status"]["state"]["phase"] for each in jobs))
            await asyncio.sleep(LOOK_SECONDS)
    raise AssertionError(f"{kind.kind} large is not over after {END_SECONDS:.0f} s")


async def insisted(ask: Callable[[], Awaitable[T]]) -> T:
    """The answer of an API server that may be too busy for it at first: it refuses, says that it timed out, or nothing."""
    for _ in range(MOST_TRIES):
        try:
            return await ask()
        except KubeError as error:
            if not is_transient(error):
                raise
            print(f"asked again: {error}")
        await asyncio.sleep(LOOK_SECONDS)
    return await ask()


def is_flow_over(flow: dict[str, Any]) -> bool:
    return flow.get("status", {}).get("state", {}).get("phase") in ("Succeed", "Failed", "Terminating")


def is_hyper_job_over(hyper_job: dict[str, Any]) -> bool:
    conditions = hyper_job.get("status", {}).get("conditions", [])
    return any(each["type"] in ("Completed", "Failed") and each["status"] == "True" for each in conditions)


def batches(bodies: list[dict[str, Any]], size: int) -> Iterable[list[dict[str, Any]]]:
    return (bodies[start : start + size] for start in range(0, len(bodies), size))


def check(cluster: Cluster, end: End, resource: str, jobs: int) -> None:
    """Each Job and pod was made once and completed; the large object fits, and was not written for each change of a Job."""
    assert end.phases == {"Completed": jobs}
    for made in ("jobs", "pods"):
        created = cluster.audit.created(made, NAMESPACE)
        assert (len(created), set(created.values())) == (jobs, {1}), made
    writes = Counter(
        (event["responseStatus"]["code"], event["objectRef"].get("subresource", ""))
        for event in cluster.audit.events()
        if event.get("objectRef", {}).get("resource") == resource and event["verb"] in ("update", "patch")
    )
    stored = len(json.dumps(end.large, separators=(",", ":")))
    print(f"{resource}: {jobs} Jobs in {end.seconds:.0f} s, {stored} bytes stored, writes {dict(writes)}")
    assert stored < STORED_BYTES
    assert writes[200, "status"] < WRITES_PER_SECOND * end.seconds
    assert {code for code, _ in writes} <= {200, 409, 504}, "no write was refused for its size; a busy API server may give up"
