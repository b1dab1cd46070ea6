"""What happens to Jobs after they were made: scaled, commanded, outlived, and confronted with objects of strangers."""

from __future__ import annotations

import json
from typing import Any

from tests.e2e.jobs.test_first_light import job
from tests.e2e.support.cluster import Cluster, wait_until


def create(cluster: Cluster, namespace: str, manifest: str) -> None:
    cluster.create(manifest, namespace)


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
