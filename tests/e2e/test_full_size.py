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
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import pytest

from pyroclast.api.types import HYPER_JOBS, JOB_FLOWS, JOB_TEMPLATES, Key, ResourceType
from pyroclast.kube.basics.errors import ConnectionFailed
from pyroclast.kube.credentials.config import load_config
from pyroclast.kube.http.client import Client
from tests.e2e.cluster import Cluster, kubectl_is_there, running
from tests.e2e.test_first_light import job

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
END_SECONDS = 6000.0

SPEC: dict[str, Any] = json.loads(job("any", command=["sleep", "1"]))["spec"]


@pytest.fixture
def cluster(control_plane: str, tmp_path: Path) -> Any:
    if not kubectl_is_there():
        pytest.skip("kubectl is not on this machine")
    with running(control_plane, tmp_path, nodes=NODES) as cluster:
        yield cluster


def test_a_flow_of_five_thousand_entries(cluster: Cluster) -> None:
    """The first entry comes before all others; every Job runs once, and the flow is told of each."""
    names = [f"entry-{number}" for number in range(FLOW_ENTRIES)]
    flows = [{"name": names[0]}, *({"name": name, "dependsOn": {"targets": [names[0]]}} for name in names[1:])]
    bodies = [{"metadata": {"name": name}, "spec": SPEC} for name in names]
    seconds = asyncio.run(followed(cluster, JOB_FLOWS, {"flows": flows}, is_flow_over, (JOB_TEMPLATES, bodies)))
    flow = cluster.get("jobflow", "large", "-n", NAMESPACE)
    assert flow["status"]["state"]["phase"] == "Succeed"
    assert {row["name"] for row in flow["status"]["jobStatusList"]} == {f"large-{name}" for name in names}
    check(cluster, flow, "jobflows", FLOW_ENTRIES, seconds)


def test_a_hyper_job_of_ten_thousand_jobs(cluster: Cluster) -> None:
    entry = {"name": "a", "replicas": HYPER_JOB_JOBS, "templateSpec": SPEC}
    seconds = asyncio.run(followed(cluster, HYPER_JOBS, {"replicatedJobs": [entry]}, is_hyper_job_over))
    hyper_job = cluster.get("hyperjob", "large", "-n", NAMESPACE)
    (told,) = hyper_job["status"]["replicatedJobsStatus"]
    assert told["name"] == "a"
    check(cluster, hyper_job, "hyperjobs", HYPER_JOB_JOBS, seconds)


async def followed(
    cluster: Cluster,
    kind: ResourceType,
    spec: dict[str, Any],
    is_over: Callable[[dict[str, Any]], bool],
    before: tuple[ResourceType, list[dict[str, Any]]] | None = None,
) -> float:
    """Create the large object, after what it needs `before`; seconds until it is over."""
    async with Client(load_config(str(cluster.kubeconfig))) as client:

        async def create(kind: ResourceType, body: dict[str, Any]) -> None:
            await client.create(kind, {"apiVersion": kind.api_version, "kind": kind.kind, **body}, namespace=NAMESPACE)

        if before is not None:
            for batch in batches(before[1], AT_ONCE):
                await asyncio.gather(*(create(before[0], body) for body in batch))
        await create(kind, {"metadata": {"name": "large"}, "spec": spec})
        began = time.monotonic()
        while time.monotonic() < began + END_SECONDS:
            await asyncio.sleep(LOOK_SECONDS)
            with contextlib.suppress(ConnectionFailed):  # a busy API server is asked again
                if is_over(await client.get(kind, Key(NAMESPACE, "large"))):
                    return time.monotonic() - began
    raise AssertionError(f"{kind.kind} large is not over after {END_SECONDS:.0f} s")


def is_flow_over(flow: dict[str, Any]) -> bool:
    return flow.get("status", {}).get("state", {}).get("phase") in ("Succeed", "Failed", "Terminating")


def is_hyper_job_over(hyper_job: dict[str, Any]) -> bool:
    conditions = hyper_job.get("status", {}).get("conditions", [])
    return any(each["type"] in ("Completed", "Failed") and each["status"] == "True" for each in conditions)


def batches(bodies: list[dict[str, Any]], size: int) -> Iterable[list[dict[str, Any]]]:
    return (bodies[start : start + size] for start in range(0, len(bodies), size))


def check(cluster: Cluster, large: dict[str, Any], resource: str, jobs: int, seconds: float) -> None:
    """Each Job and pod was made once and completed; the large object fits, and was not written for each change of a Job."""
    phases = Counter(each["status"]["state"]["phase"] for each in cluster.get("vcjob", "-n", NAMESPACE)["items"])
    assert phases == {"Completed": jobs}
    for made in ("jobs", "pods"):
        created = cluster.audit.created(made, NAMESPACE)
        assert (len(created), set(created.values())) == (jobs, {1}), made
    writes = Counter(
        (event["responseStatus"]["code"], event["objectRef"].get("subresource", ""))
        for event in cluster.audit.events()
        if event.get("objectRef", {}).get("resource") == resource and event["verb"] in ("update", "patch")
    )
    stored = len(json.dumps(large, separators=(",", ":")))
    print(f"{resource}: {jobs} Jobs in {seconds:.0f} s, {stored} bytes stored, writes {dict(writes)}")
    assert stored < STORED_BYTES
    assert writes[200, "status"] < WRITES_PER_SECOND * seconds
    assert {code for code, _ in writes} <= {200, 409}, "no write was refused for its size"
