"""Services killed in the middle of many Jobs: every Job completes, no pod is made twice, no gang stays half-started."""

from __future__ import annotations

import json
from collections import Counter
from typing import Any

import pytest

from tests.e2e.jobs.test_first_light import job
from tests.e2e.support.cluster import Cluster, wait_until

JOBS = 50
REPLICAS = 2
SERVICES = ["admission", "job-controller", "jobflow-controller", "scheduler", "nodes"]


def submit(cluster: Cluster, namespace: str, count: int, *, prefix: str = "job") -> None:
    items = [json.loads(job(f"{prefix}-{number}", command=["sleep", "1"], replicas=REPLICAS)) for number in range(count)]
    cluster.kubectl(
        "create", "-n", namespace, "-f", "-", stdin=json.dumps({"apiVersion": "v1", "kind": "List", "items": items}), timeout=120
    )


def phases(cluster: Cluster, namespace: str) -> Counter[str]:
    items = cluster.get("vcjob", "-n", namespace)["items"]
    return Counter(item.get("status", {}).get("state", {}).get("phase", "") for item in items)


def pods_created_twice(cluster: Cluster, namespace: str, *, since: int = 0) -> list[str]:
    """Names of pods with more than one successful create; no Job here restarts, so each name has one version.

    `since`: how many events of the audit log, the first ones, are passed over.
    """
    return [name for name, count in cluster.audit.created("pods", namespace, since=since).items() if count > 1]


@pytest.mark.timeout(600)
@pytest.mark.parametrize("service", SERVICES)
def test_all_jobs_complete_without_duplicate_pods_when_a_service_is_killed(
    cluster: Cluster, namespace: str, service: str
) -> None:
    submit(cluster, namespace, JOBS // 2)
    wait_until(lambda: phases(cluster, namespace)["Running"] + phases(cluster, namespace)["Completed"] >= 5, "some Jobs to run")
    cluster.kill(service)
    if service == "admission":
        wait_until(lambda: _accepts(cluster, namespace), "the webhook to answer again")
    submit(cluster, namespace, JOBS // 2, prefix="late")
    wait_until(lambda: phases(cluster, namespace) == {"Completed": JOBS}, "all Jobs to complete", seconds=180)
    assert pods_created_twice(cluster, namespace) == []


@pytest.mark.parametrize(("service", "lease"), [("job-controller", "vc-controller-manager"), ("scheduler", "volcano")])
def test_restarted_leader_renews_its_lease_under_the_same_identity(cluster: Cluster, service: str, lease: str) -> None:
    """It has the identity of the one before, which is known to have ended: nobody waits until the Lease expires."""
    wait_until(lambda: spec_of(cluster, lease)["holderIdentity"], "a leader")
    before = spec_of(cluster, lease)
    cluster.kill(service)
    killed = spec_of(cluster, lease)["renewTime"]
    wait_until(lambda: spec_of(cluster, lease)["renewTime"] != killed, "the Lease to be renewed")
    after = spec_of(cluster, lease)
    kept = ("holderIdentity", "leaseTransitions", "acquireTime")
    assert {name: after[name] for name in kept} == {name: before[name] for name in kept}


def spec_of(cluster: Cluster, lease: str) -> dict[str, Any]:
    found: dict[str, Any] = cluster.get("lease", lease, "-n", "pyroclast-system")["spec"]
    return found


def _accepts(cluster: Cluster, namespace: str) -> bool:
    manifest = job("probe", command=["true"])
    try:
        cluster.kubectl("create", "-n", namespace, "--dry-run=server", "-f", "-", stdin=manifest)
    except AssertionError:
        return False
    return True
