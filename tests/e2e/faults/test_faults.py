"""Services killed in the middle of many Jobs: every Job completes, no pod is made twice, no gang stays half-started."""

from __future__ import annotations

import json
from collections import Counter
from typing import Any

import pytest

from tests.e2e.jobs.test_first_light import job
from tests.e2e.jobs.test_lifecycle import command
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


def test_job_is_restarted_for_a_pod_evicted_while_the_controller_was_down(cluster: Cluster, namespace: str) -> None:
    policies = [{"event": "PodEvicted", "action": "RestartJob"}]
    manifest = job("evicted", command=["sleep", "600"], replicas=REPLICAS, policies=policies)
    cluster.create(manifest, namespace)
    running = f"jsonpath={{.status.running}}={REPLICAS}"
    cluster.kubectl("wait", "-n", namespace, f"--for={running}", "vcjob/evicted", "--timeout=60s")
    with cluster.standing_aside("job-controller"):
        cluster.kubectl("delete", "pod", "evicted-worker-0", "-n", namespace, "--force", "--grace-period=0")
    wait_until(lambda: status_of(cluster, namespace, "evicted").get("retryCount") == 1, "the Job to be restarted")
    cluster.kubectl("wait", "-n", namespace, f"--for={running}", "vcjob/evicted", "--timeout=60s")
    assert status_of(cluster, namespace, "evicted")["version"] == 1


def test_controller_restores_removed_pod_labels_and_waits_for_podgroup_finalizers(cluster: Cluster, namespace: str) -> None:
    """Labels of a pod are given back; a PodGroup that a finalizer holds is waited for, and the Job says so."""
    cluster.create(job("robbed", command=["sleep", "600"], replicas=REPLICAS), namespace)
    cluster.kubectl("wait", "-n", namespace, "--for=jsonpath={.status.state.phase}=Running", "vcjob/robbed", "--timeout=60s")
    cluster.kubectl("label", "pod", "robbed-worker-0", "-n", namespace, "volcano.sh/job-name-")
    label = "jsonpath={.metadata.labels.volcano\\.sh/job-name}=robbed"
    cluster.kubectl("wait", "-n", namespace, f"--for={label}", "pod/robbed-worker-0", "--timeout=60s")
    group = cluster.kubectl("get", "podgroups.scheduling.volcano.sh", "-n", namespace, "-o", "name").strip()
    finalizers = '{"metadata":{"finalizers":%s}}'
    cluster.kubectl("patch", group, "-n", namespace, "--type=merge", "-p", finalizers % '["example.com/hold"]')
    created = len(group_creates(cluster, namespace))
    try:
        cluster.kubectl(
            "create", "-n", namespace, "-f", "-", stdin=command("RestartJob", cluster.get("vcjob", "robbed", "-n", namespace))
        )
        events = ("events", "-n", namespace, "--field-selector", "involvedObject.name=robbed,reason=PodGroupPending")
        wait_until(
            lambda: any(
                "waits for its finalizers: example.com/hold" in item["message"] for item in cluster.get(*events)["items"]
            ),
            "an event that names the finalizer",
        )
        assert len(group_creates(cluster, namespace)) == created
    finally:
        cluster.kubectl("patch", group, "-n", namespace, "--type=merge", "-p", finalizers % "null")
    cluster.kubectl("wait", "-n", namespace, "--for=jsonpath={.status.state.phase}=Running", "vcjob/robbed", "--timeout=60s")
    assert len(group_creates(cluster, namespace)) == created + 1


def group_creates(cluster: Cluster, namespace: str) -> list[dict[str, Any]]:
    """All tries to create a PodGroup in the namespace, whatever came of them."""
    return [
        event
        for event in cluster.audit.events()
        if event["verb"] == "create"
        and event["objectRef"]["resource"] == "podgroups"
        and event["objectRef"].get("namespace") == namespace
    ]


def status_of(cluster: Cluster, namespace: str, name: str) -> dict[str, Any]:
    status: dict[str, Any] = cluster.get("vcjob", name, "-n", namespace).get("status", {})
    return status


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
