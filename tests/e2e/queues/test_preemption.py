"""Preemption, with a scheduler configuration that is changed while it runs."""

from __future__ import annotations

import json
from collections.abc import Iterator

import pytest

from tests.e2e.jobs.test_first_light import job
from tests.e2e.support.cluster import Cluster, wait_until
from tests.e2e.support.configuration import configured

CONFIGURATION = """
actions: "enqueue, allocate, preempt, backfill"
tiers:
- plugins:
  - name: priority
  - name: gang
    enablePreemptable: false
  - name: conformance
- plugins:
  - name: overcommit
  - name: drf
    enablePreemptable: false
  - name: predicates
  - name: proportion
  - name: nodeorder
"""


@pytest.fixture
def preempting(cluster: Cluster) -> Iterator[None]:
    """The scheduler with the action preempt."""
    with configured(cluster, CONFIGURATION):
        yield


@pytest.mark.usefixtures("preempting")
def test_job_of_higher_priority_preempts_pods_of_a_lower_priority_job(cluster: Cluster, namespace: str) -> None:
    for name, value in (("urgent", 1000), ("patient", 1)):
        cluster.kubectl("create", "priorityclass", f"{name}-{namespace}", f"--value={value}")
    try:
        capacity = sum(int(node["status"]["allocatable"]["cpu"]) for node in cluster.get("nodes")["items"])
        submit(cluster, namespace, "patient", replicas=capacity, minimum=1)
        wait_until(lambda: running(cluster, namespace, "patient") == capacity, "the cluster to be full", seconds=90)
        submit(cluster, namespace, "urgent", replicas=2, minimum=2)
        wait_until(lambda: running(cluster, namespace, "urgent") == 2, "the urgent Job to run", seconds=90)
        events = cluster.get("events", "-n", namespace, "--field-selector", "reason=Evict")["items"]
        assert events
    finally:
        for name in ("urgent", "patient"):
            cluster.kubectl("delete", "vcjob", name, "-n", namespace, "--ignore-not-found")
            cluster.kubectl("delete", "priorityclass", f"{name}-{namespace}")


def submit(cluster: Cluster, namespace: str, name: str, *, replicas: int, minimum: int) -> None:
    important = {"priorityClassName": f"{name}-{namespace}"}
    manifest = json.loads(job(name, command=["sleep", "600"], replicas=replicas, min_available=minimum, cpu="1", **important))
    template = manifest["spec"]["tasks"][0]["template"]
    template["spec"] |= important
    template["metadata"] = {"annotations": {"volcano.sh/preemptable": "true"}}
    cluster.create(json.dumps(manifest), namespace)


def running(cluster: Cluster, namespace: str, name: str) -> int:
    items = cluster.get("pods", "-n", namespace, "-l", f"volcano.sh/job-name={name}")["items"]
    return sum(item["status"]["phase"] == "Running" and "deletionTimestamp" not in item["metadata"] for item in items)
