"""What happens to Jobs after they were made: scaled, commanded, outlived, and confronted with objects of strangers."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.e2e.jobs.test_first_light import job, phase_of
from tests.e2e.support.cluster import Cluster, wait_until


def create(cluster: Cluster, namespace: str, manifest: str) -> None:
    cluster.create(manifest, namespace)


def wait_for(cluster: Cluster, namespace: str, name: str, phase: str) -> None:
    cluster.kubectl("wait", "-n", namespace, f"--for=jsonpath={{.status.state.phase}}={phase}", f"vcjob/{name}", "--timeout=60s")


def command(action: str, target: dict[str, Any]) -> str:
    metadata = target["metadata"]
    owner = {"apiVersion": target["apiVersion"], "kind": target["kind"], "name": metadata["name"], "uid": metadata["uid"]}
    body = {
        "apiVersion": "bus.volcano.sh/v1alpha1",
        "kind": "Command",
        "metadata": {"generateName": "order-"},
        "action": action,
        "target": {**owner, "controller": True},
    }
    return json.dumps(body)


def pods(cluster: Cluster, namespace: str) -> list[str]:
    items = cluster.get("pods", "-n", namespace)["items"]
    return sorted(item["metadata"]["name"] for item in items if "deletionTimestamp" not in item["metadata"])


def test_scaling_a_job_keeps_the_lowest_pod_indices_and_updates_the_hosts_config_map(cluster: Cluster, namespace: str) -> None:
    create(cluster, namespace, job("elastic", command=["sleep", "600"], replicas=2, min_available=1, plugins={"svc": []}))
    wait_for(cluster, namespace, "elastic", "Running")
    before = {name: cluster.get("pod", name, "-n", namespace)["metadata"]["uid"] for name in pods(cluster, namespace)}

    def scale(replicas: int) -> None:
        patch = [
            {"op": "replace", "path": "/spec/tasks/0/replicas", "value": replicas},
            {"op": "replace", "path": "/spec/tasks/0/minAvailable", "value": 1},
        ]
        cluster.kubectl("patch", "vcjob", "elastic", "-n", namespace, "--type=json", "-p", json.dumps(patch))

    for replicas in (4, 1):
        scale(replicas)
        want = [f"elastic-worker-{index}" for index in range(replicas)]
        wait_until(lambda want=want: pods(cluster, namespace) == want, f"{replicas} pods")  # type: ignore[misc]
        hosts = [f"{name}.elastic" for name in want]
        wait_until(lambda hosts=hosts: hosts_of(cluster, namespace) == hosts, "the hosts to follow")  # type: ignore[misc]
    assert cluster.get("pod", "elastic-worker-0", "-n", namespace)["metadata"]["uid"] == before["elastic-worker-0"]
    assert phase_of(cluster, namespace, "elastic") == "Running"


def hosts_of(cluster: Cluster, namespace: str) -> list[str]:
    return str(cluster.get("configmap", "elastic-svc", "-n", namespace)["data"]["worker.host"]).split()


def test_commands_abort_and_resume_a_job_and_are_deleted(cluster: Cluster, namespace: str) -> None:
    create(cluster, namespace, job("ordered", command=["sleep", "600"]))
    wait_for(cluster, namespace, "ordered", "Running")
    for action, phase in (("AbortJob", "Aborted"), ("ResumeJob", "Running")):
        create(cluster, namespace, command(action, cluster.get("vcjob", "ordered", "-n", namespace)))
        wait_for(cluster, namespace, "ordered", phase)
    assert not cluster.get("commands.bus.volcano.sh", "-n", namespace)["items"]


def test_finished_job_is_deleted_after_its_ttl(cluster: Cluster, namespace: str) -> None:
    create(cluster, namespace, job("brief", command=["sleep", "0"], ttlSecondsAfterFinished=1))
    wait_until(lambda: not cluster.get("vcjob", "-n", namespace)["items"], "the Job to be removed")


def test_volume_claim_of_a_job_is_created_and_added_to_its_pod(cluster: Cluster, namespace: str) -> None:
    volume = {
        "mountPath": "/data",
        "volumeClaim": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}},
    }
    create(cluster, namespace, job("keeps", command=["sleep", "600"], volumes=[volume]))
    wait_until(lambda: cluster.get("pvc", "-n", namespace)["items"], "the claim")
    claim = cluster.get("pvc", "-n", namespace)["items"][0]["metadata"]["name"]
    wait_until(lambda: pods(cluster, namespace), "the pod")
    pod = cluster.get("pod", "keeps-worker-0", "-n", namespace)
    assert claim in [
        volume["persistentVolumeClaim"]["claimName"] for volume in pod["spec"]["volumes"] if "persistentVolumeClaim" in volume
    ]


def test_job_creates_no_pods_while_its_volume_claim_is_missing(cluster: Cluster, namespace: str) -> None:
    create(cluster, namespace, job("waits", command=["true"], volumes=[{"mountPath": "/data", "volumeClaimName": "later"}]))
    state = "{.status.state.reason}"
    cluster.kubectl("wait", "-n", namespace, f"--for=jsonpath={state}=VolumeClaimNotFound", "vcjob/waits", "--timeout=60s")
    assert not pods(cluster, namespace)


@pytest.mark.parametrize("kind", ["ConfigMap", "Service", "Pod"])
def test_foreign_object_with_the_name_of_a_job_object_is_kept_and_a_warning_event_is_emitted(
    cluster: Cluster, namespace: str, kind: str
) -> None:
    names = {"ConfigMap": "mine-svc", "Service": "mine", "Pod": "mine-worker-0"}
    specs: dict[str, dict[str, Any]] = {
        "ConfigMap": {"data": {"mine": "yes"}},
        "Service": {"spec": {"ports": [{"port": 80}]}},
        "Pod": {"spec": {"schedulerName": "nobody", "containers": [{"name": "c", "image": "busybox:1.37"}]}},
    }
    stranger = {"apiVersion": "v1", "kind": kind, "metadata": {"name": names[kind]}, **specs[kind]}
    create(cluster, namespace, json.dumps(stranger))
    uid = cluster.get(kind, names[kind], "-n", namespace)["metadata"]["uid"]
    create(cluster, namespace, job("mine", command=["sleep", "600"], plugins={"svc": []}))
    events = ("events", "-n", namespace, "--field-selector", "involvedObject.name=mine,type=Warning")
    wait_until(lambda: cluster.get(*events)["items"], "an event that says so")
    assert cluster.get(kind, names[kind], "-n", namespace)["metadata"]["uid"] == uid


def test_pod_without_a_job_gets_a_podgroup_with_min_member_1(cluster: Cluster, namespace: str) -> None:
    container = {"name": "c", "image": "busybox:1.37", "command": ["sleep", "600"]}
    pod = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "alone"},
        "spec": {"schedulerName": "volcano", "containers": [container]},
    }
    create(cluster, namespace, json.dumps(pod))
    cluster.kubectl("wait", "-n", namespace, "--for=condition=Ready", "pod/alone", "--timeout=60s")
    name = cluster.get("pod", "alone", "-n", namespace)["metadata"]["annotations"]["scheduling.k8s.io/group-name"]
    assert cluster.get("podgroups.scheduling.volcano.sh", name, "-n", namespace)["spec"]["minMember"] == 1


def test_a_queue_is_closed_and_opened_by_command(cluster: Cluster, namespace: str) -> None:
    queue = f"q-{namespace}"
    cluster.kubectl(
        "create", "-f", "-", stdin=f"apiVersion: scheduling.volcano.sh/v1beta1\nkind: Queue\nmetadata: {{name: {queue}}}\n"
    )
    try:
        for action, state in (("CloseQueue", "Closed"), ("OpenQueue", "Open")):
            cluster.kubectl("wait", "--for=jsonpath={.status.state}", f"queue/{queue}", "--timeout=60s")
            create(cluster, namespace, command(action, cluster.get("queue", queue)))
            cluster.kubectl("wait", f"--for=jsonpath={{.status.state}}={state}", f"queue/{queue}", "--timeout=60s")
    finally:
        cluster.kubectl("delete", "queue", queue)


def test_job_with_a_restart_job_policy_fails_after_max_retry(cluster: Cluster, namespace: str) -> None:
    policies = [{"event": "PodFailed", "action": "RestartJob"}]
    create(cluster, namespace, job("stubborn", command=["sh", "-c", "exit 1"], maxRetry=2, policies=policies))
    wait_for(cluster, namespace, "stubborn", "Failed")
    status = cluster.get("vcjob", "stubborn", "-n", namespace)["status"]
    assert status["retryCount"] == 2
    assert status["state"]["reason"] == "MaxRetryReached"


def test_damaged_webhook_certificate_is_regenerated_and_webhooks_are_served_again(cluster: Cluster, namespace: str) -> None:
    """Whoever spoils the Secret of the webhooks gets new ones, and calls go on."""
    secrets = cluster.get("secrets", "-n", "pyroclast-system")["items"]
    secret = next(item["metadata"]["name"] for item in secrets if "tls.crt" in item.get("data", {}))
    before = cluster.get("secret", secret, "-n", "pyroclast-system")["data"]
    cluster.kubectl("patch", "secret", secret, "-n", "pyroclast-system", "-p", '{"data":{"tls.crt":"c3BvaWxlZA=="}}')
    wait_until(
        lambda: cluster.get("secret", secret, "-n", "pyroclast-system")["data"]["tls.crt"] != "c3BvaWxlZA==",
        "new certificates",
        seconds=90,
    )
    assert before.keys() == cluster.get("secret", secret, "-n", "pyroclast-system")["data"].keys()
    wait_until(lambda: accepted(cluster, namespace), "the webhooks to be called again")


def accepted(cluster: Cluster, namespace: str) -> bool:
    try:
        cluster.kubectl("create", "-n", namespace, "--dry-run=server", "-f", "-", stdin=job("probe", command=["true"]))
    except AssertionError:
        return False
    return True
