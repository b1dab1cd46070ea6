"""Pods that no Job of ours made: they get a PodGroup, are scheduled, and share it with those of the same workload.

The pods of the workloads are made by hand, as the embedded control plane has no controllers of workloads; where the real one's
make more of them, these share the group too.
"""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.e2e.support.cluster import Cluster, KubectlError, wait_until

GROUPS = "podgroups.scheduling.volcano.sh"


def manifest(kind: str, name: str, *, command: str = "sleep 600", **spec: Any) -> dict[str, Any]:
    container = {"name": "c", "image": "busybox", "command": ["sh", "-c", command]}
    pod = {"schedulerName": "volcano", "terminationGracePeriodSeconds": 0, "containers": [container]}
    version = {"Pod": "v1", "Job": "batch/v1"}.get(kind, "apps/v1")
    body: dict[str, Any] = {"apiVersion": version, "kind": kind, "metadata": {"name": name, "labels": {"app": name}}}
    if kind == "Pod":
        return {**body, "spec": pod}
    template = {"metadata": {"labels": {"app": name}}, "spec": pod}
    if kind == "Job":
        pod["restartPolicy"] = "Never"
    selector = {} if kind == "Job" else {"selector": {"matchLabels": {"app": name}}}
    return {**body, "spec": {**selector, "template": template, **spec}}


def create(cluster: Cluster, namespace: str, body: dict[str, Any]) -> dict[str, Any]:
    made: dict[str, Any] = json.loads(cluster.kubectl("create", "-n", namespace, "-o", "json", "-f", "-", stdin=json.dumps(body)))
    return made


def groups(cluster: Cluster, namespace: str) -> dict[str, dict[str, Any]]:
    return {group["metadata"]["name"]: group for group in cluster.get(GROUPS, "-n", namespace)["items"]}


def running(cluster: Cluster, namespace: str) -> int:
    return sum(pod["status"].get("phase") == "Running" for pod in cluster.get("pods", "-n", namespace)["items"])


def add_pod(cluster: Cluster, namespace: str, name: str, owner: dict[str, Any]) -> None:
    body = manifest("Pod", name)
    body["metadata"]["labels"] = dict(owner["spec"]["selector"]["matchLabels"])
    reference = {"apiVersion": owner["apiVersion"], "kind": owner["kind"], "controller": True}
    body["metadata"]["ownerReferences"] = [{**reference, "name": owner["metadata"]["name"], "uid": owner["metadata"]["uid"]}]
    create(cluster, namespace, body)


@pytest.mark.parametrize("kind", ["ReplicaSet", "StatefulSet"])
def test_pods_of_a_workload_share_a_podgroup_that_is_deleted_after_scaling_to_zero(
    cluster: Cluster, namespace: str, kind: str
) -> None:
    body = manifest(kind, "w", replicas=2, **({"serviceName": "s"} if kind == "StatefulSet" else {}))
    body["metadata"]["annotations"] = {"scheduling.volcano.sh/group-min-member": "2"}
    if kind == "StatefulSet":
        body["spec"]["podManagementPolicy"] = "Parallel"
    owner = create(cluster, namespace, body)
    if cluster.control_plane == "embedded":
        for number in range(2):
            add_pod(cluster, namespace, f"w-{number}", owner)
    wait_until(lambda: running(cluster, namespace) == 2, "both pods to run")
    (group,) = groups(cluster, namespace).values()
    assert group["metadata"]["name"] == f"podgroup-{owner['metadata']['uid']}"
    assert group["spec"]["minMember"] == 2
    cluster.kubectl("scale", "-n", namespace, f"{kind.lower()}/w", "--replicas=0")
    wait_until(lambda: not groups(cluster, namespace), "the PodGroup to go")


def test_podgroup_of_a_daemon_set_pod_gets_the_annotations_of_the_daemon_set(cluster: Cluster, namespace: str) -> None:
    body = manifest("DaemonSet", "d")
    body["spec"]["template"]["spec"]["nodeSelector"] = {"no": "such-node"}  # its own controller makes no pods then
    body["metadata"]["annotations"] = {"volcano.sh/x": "y"}
    owner = create(cluster, namespace, body)
    add_pod(cluster, namespace, "d-0", owner)
    wait_until(lambda: groups(cluster, namespace), "the PodGroup")
    (group,) = groups(cluster, namespace).values()
    assert group["metadata"]["annotations"] == {"volcano.sh/x": "y"}


def test_pods_of_a_kubernetes_job_share_a_podgroup_that_is_deleted_on_suspension(cluster: Cluster, namespace: str) -> None:
    try:
        create(cluster, namespace, manifest("Job", "j", parallelism=2))
    except KubectlError as error:
        if "no matches for kind" not in error.stderr:
            raise
        pytest.skip("the embedded control plane serves no batch/v1")
    if cluster.control_plane == "embedded":
        pytest.skip("nobody makes the pods of a batch/v1 Job there")
    wait_until(lambda: running(cluster, namespace) == 2, "both pods to run")
    assert len(groups(cluster, namespace)) == 1
    cluster.kubectl("patch", "-n", namespace, "jobs.batch/j", "-p", '{"spec": {"suspend": true}}')
    wait_until(lambda: not groups(cluster, namespace), "the PodGroup to go")
