"""HyperJobs spread Jobs over namespaces; pods are told of the ColocationConfiguration that is for them."""

from __future__ import annotations

import json
from typing import Any

from tests.e2e.support.cluster import Cluster, wait_until


def create(cluster: Cluster, namespace: str, version: str, kind: str, name: str, spec: dict[str, Any]) -> None:
    body = {"apiVersion": version, "kind": kind, "metadata": {"name": name}, "spec": spec}
    cluster.create(json.dumps(body), namespace)


def conditions(cluster: Cluster, namespace: str) -> dict[str, str]:
    status = cluster.get("hyperjob", "h", "-n", namespace).get("status", {})
    return {condition["type"]: condition["status"] for condition in status.get("conditions", [])}


def test_hyperjob_runs_jobs_in_two_namespaces_and_its_deletion_deletes_them(cluster: Cluster, namespace: str) -> None:
    other = f"{namespace}-b"
    cluster.make_namespace(other)
    cluster.kubectl("annotate", "namespace", other, f"training.volcano.sh/hyperjobs-from={namespace}")
    container = {"name": "c", "image": "busybox", "command": ["sleep", "1"]}
    pod = {"spec": {"restartPolicy": "Never", "containers": [container]}}
    template = {"tasks": [{"name": "t", "replicas": 1, "template": pod}]}
    entry = {"name": "a", "replicas": 2, "clusterNames": [namespace, other], "templateSpec": template}
    create(cluster, namespace, "training.volcano.sh/v1alpha1", "HyperJob", "h", {"replicatedJobs": [entry]})
    wait_until(lambda: conditions(cluster, namespace).get("Completed") == "True", "both Jobs to complete")
    assert cluster.get("vcjob", "h-a-1", "-n", other)["status"]["state"]["phase"] == "Completed"
    cluster.kubectl("delete", "hyperjob", "h", "-n", namespace, "--timeout=60s")
    for each in (namespace, other):
        wait_until(lambda each=each: not cluster.get("vcjob", "-n", each)["items"], "the Jobs to go")  # type: ignore[misc]
    cluster.kubectl("delete", "namespace", other, "--wait=false")
