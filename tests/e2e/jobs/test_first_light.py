"""One Job from `kubectl create` to Completed, through every service."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.e2e.support.cluster import Cluster, places_before_pods, wait_until

EXAMPLE = "examples/gang.yaml"


def phase_of(cluster: Cluster, namespace: str, job: str) -> str:
    return str(cluster.get("vcjob", job, "-n", namespace).get("status", {}).get("state", {}).get("phase", ""))


def job(
    name: str, *, command: list[str], replicas: int = 1, min_available: int | None = None, cpu: str = "100m", **spec: Any
) -> str:
    container = {"name": "main", "image": "busybox:1.37", "command": command, "resources": {"requests": {"cpu": cpu}}}
    template = {"spec": {"restartPolicy": "Never", "containers": [container]}}
    return json.dumps(
        {
            "apiVersion": "batch.volcano.sh/v1alpha1",
            "kind": "Job",
            "metadata": {"name": name},
            "spec": {
                "schedulerName": "volcano",
                "minAvailable": replicas if min_available is None else min_available,
                "tasks": [{"name": "worker", "replicas": replicas, "template": template}],
                **spec,
            },
        }
    )


def test_gang_runs_together_and_completes(cluster: Cluster, namespace: str) -> None:
    assert cluster.kubectl("create", "-n", namespace, "-f", EXAMPLE) == "job.batch.volcano.sh/gang created\n"
    cluster.kubectl("wait", "-n", namespace, "--for=jsonpath={.status.state.phase}=Completed", "vcjob/gang", "--timeout=60s")
    found = cluster.get("vcjob", "gang", "-n", namespace)
    assert found["status"]["minAvailable"] == 4
    binds = [
        event
        for event in cluster.audit.events()
        if event["verb"] == "create"
        and event["objectRef"].get("subresource") == "binding"
        and event["objectRef"]["namespace"] == namespace
    ]
    members = ["gang-launcher-0", "gang-worker-0", "gang-worker-1", "gang-worker-2"]
    assert sorted(event["objectRef"]["name"] for event in binds) == ([] if places_before_pods() else members)


def test_svc_and_env_plugins_provide_task_index_hostnames_and_headless_service(cluster: Cluster, namespace: str) -> None:
    manifest = job(
        "hosts", command=["sh", "-c", "echo index $VC_TASK_INDEX; sleep 60"], replicas=2, plugins={"svc": [], "env": []}
    )
    cluster.kubectl("create", "-n", namespace, "-f", "-", stdin=manifest)
    cluster.kubectl("wait", "-n", namespace, "--for=jsonpath={.status.running}=2", "vcjob/hosts", "--timeout=60s")
    pod = cluster.get("pod", "hosts-worker-1", "-n", namespace)
    environment = {entry["name"]: entry.get("value") for entry in pod["spec"]["containers"][0]["env"]}
    assert environment["VC_TASK_INDEX"] == "1"
    assert pod["spec"]["hostname"] == "hosts-worker-1"
    assert pod["spec"]["subdomain"] == "hosts"
    hosts = cluster.get("configmap", "hosts-svc", "-n", namespace)["data"]
    assert hosts["worker.host"].split() == ["hosts-worker-0.hosts", "hosts-worker-1.hosts"]
    assert cluster.get("service", "hosts", "-n", namespace)["spec"]["clusterIP"] == "None"
    assert cluster.kubectl("logs", "-n", namespace, "hosts-worker-1").strip() == "index 1"


def test_deleting_a_job_deletes_its_pods_podgroup_service_and_config_map(cluster: Cluster, namespace: str) -> None:
    cluster.kubectl(
        "create", "-n", namespace, "-f", "-", stdin=job("gone", command=["sleep", "600"], replicas=2, plugins={"svc": []})
    )
    cluster.kubectl("wait", "-n", namespace, "--for=jsonpath={.status.state.phase}=Running", "vcjob/gone", "--timeout=60s")
    uid = cluster.get("vcjob", "gone", "-n", namespace)["metadata"]["uid"]
    group = f"podgroups.scheduling.volcano.sh/gone-{uid}"
    cluster.kubectl("wait", "-n", namespace, "--for=jsonpath={.status.phase}=Running", group, "--timeout=60s")
    assert cluster.get(group, "-n", namespace)["spec"]["minMember"] == 2
    cluster.kubectl("delete", "-n", namespace, "vcjob/gone", "--timeout=60s")
    kinds = "pods,services,podgroups.scheduling.volcano.sh,vcjob"
    wait_until(lambda: not cluster.get(kinds, "-n", namespace)["items"], "everything of the Job to be gone", seconds=90)
    names = [item["metadata"]["name"] for item in cluster.get("configmaps", "-n", namespace)["items"]]
    assert "gone-svc" not in names


def test_gang_that_does_not_fit_binds_no_pod_and_gets_an_unschedulable_condition(cluster: Cluster, namespace: str) -> None:
    container = {"name": "main", "image": "busybox:1.37", "command": ["sleep", "1"], "resources": {"requests": {"cpu": "7"}}}
    manifest = json.loads(job("large", command=["sleep", "1"], replicas=9))
    manifest["spec"]["tasks"][0]["template"]["spec"]["containers"] = [container]
    cluster.kubectl("create", "-n", namespace, "-f", "-", stdin=json.dumps(manifest))

    def reason() -> list[str]:
        groups = cluster.get("podgroups.scheduling.volcano.sh", "-n", namespace)["items"]
        return [condition["type"] for group in groups for condition in group.get("status", {}).get("conditions", [])]

    wait_until(lambda: "Unschedulable" in reason(), "the PodGroup to say why it waits")
    bound = [pod for pod in cluster.get("pods", "-n", namespace)["items"] if pod["spec"].get("nodeName")]
    assert not bound
    assert phase_of(cluster, namespace, "large") in ("Pending", "Inqueue", "")


def test_failed_pod_without_policy_fails_the_job(cluster: Cluster, namespace: str) -> None:
    cluster.kubectl("create", "-n", namespace, "-f", "-", stdin=job("broken", command=["sh", "-c", "exit 3"]))
    cluster.kubectl("wait", "-n", namespace, "--for=jsonpath={.status.state.phase}=Failed", "vcjob/broken", "--timeout=60s")
    assert cluster.get("vcjob", "broken", "-n", namespace)["status"]["state"]["reason"]


@pytest.mark.parametrize("name", ["root", "default"])
def test_root_and_default_queues_exist_and_are_open(cluster: Cluster, name: str) -> None:
    assert cluster.get("queue", name)["status"]["state"] == "Open"


def test_every_service_runs_under_its_own_account(cluster: Cluster) -> None:
    users = {
        event["user"]["username"].rpartition(":")[2]
        for event in cluster.audit.events()
        if "pyroclast-system" in event["user"]["username"]
    }
    assert users >= {
        "pyroclast-admission",
        "pyroclast-controllers",
        "pyroclast-jobflow",
        "pyroclast-scheduler",
        "pyroclast-nodes",
    }
