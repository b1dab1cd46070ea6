"""What happens to Jobs after they were made, CronJobs and HyperJobs that make some, and plugins of Jobs."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

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


def jobs(cluster: Cluster, namespace: str) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = cluster.get("vcjob", "-n", namespace)["items"]
    return found


def test_cron_example_creates_jobs_repeatedly(cluster: Cluster, namespace: str) -> None:
    often = Path("examples/cron.yaml").read_text().replace("*/1 * * * *", "@every 1s")
    cluster.create(often, namespace)
    wait_until(lambda: len(jobs(cluster, namespace)) > 1, "a second Job")
    first = min(job["metadata"]["name"] for job in jobs(cluster, namespace))
    cluster.kubectl("wait", "-n", namespace, "--for=jsonpath={.status.state.phase}=Completed", f"vcjob/{first}", "--timeout=60s")


def create_of_kind(cluster: Cluster, namespace: str, version: str, kind: str, name: str, spec: dict[str, Any]) -> None:
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
    create_of_kind(cluster, namespace, "training.volcano.sh/v1alpha1", "HyperJob", "h", {"replicatedJobs": [entry]})
    wait_until(lambda: conditions(cluster, namespace).get("Completed") == "True", "both Jobs to complete")
    assert cluster.get("vcjob", "h-a-1", "-n", other)["status"]["state"]["phase"] == "Completed"
    cluster.kubectl("delete", "hyperjob", "h", "-n", namespace, "--timeout=60s")
    for each in (namespace, other):
        wait_until(lambda each=each: not cluster.get("vcjob", "-n", each)["items"], "the Jobs to go")  # type: ignore[misc]
    cluster.kubectl("delete", "namespace", other, "--wait=false")


EXAMPLES = {
    "mpi": {"secret": ["mpi-ssh"], "configmap": ["mpi-svc"], "service": ["mpi"]},
    "pytorch": {"configmap": ["pytorch-svc"], "service": ["pytorch"]},
    "ray": {"configmap": ["ray-svc"], "service": ["ray", "ray-head-svc"]},
    "ssh": {"secret": ["ssh-ssh"], "configmap": ["ssh-svc"], "service": ["ssh"]},
    "tensorflow": {"configmap": ["tensorflow-svc"], "service": ["tensorflow"]},
}
"""Examples to the objects that their plugins make."""


def _objects(cluster: Cluster, namespace: str, job: str) -> dict[str, list[str]]:
    """Names of the objects that belong to the Job, by kind."""
    found: dict[str, list[str]] = {}
    for kind in ("secret", "configmap", "service"):
        for item in cluster.get(kind, "-n", namespace)["items"]:
            if any(owner["name"] == job for owner in item["metadata"].get("ownerReferences", ())):
                found.setdefault(kind, []).append(item["metadata"]["name"])
    return found


@pytest.mark.parametrize("name", EXAMPLES)
def test_framework_examples_complete_and_their_plugin_objects_are_deleted(cluster: Cluster, namespace: str, name: str) -> None:
    cluster.kubectl("create", "-n", namespace, "-f", f"examples/{name}.yaml")
    wait_until(lambda: _objects(cluster, namespace, name) == EXAMPLES[name], f"the objects of {name}")
    cluster.kubectl("wait", "-n", namespace, "--for=jsonpath={.status.state.phase}=Completed", f"vcjob/{name}", "--timeout=90s")
    wait_until(lambda: not _objects(cluster, namespace, name), f"the objects of {name} to go")


def test_gang_is_bound_when_its_launcher_has_an_init_container_that_waits_for_workers(cluster: Cluster, namespace: str) -> None:
    cluster.kubectl("create", "-n", namespace, "-f", "examples/mpi.yaml")
    cluster.kubectl("wait", "-n", namespace, "--for=create", "pod/mpi-launcher-0", "--timeout=60s")
    cluster.kubectl("wait", "-n", namespace, "--for=condition=PodScheduled", "pod", "--all", "--timeout=60s")
    (waiting,) = cluster.get("pod", "mpi-launcher-0", "-n", namespace)["spec"]["initContainers"]
    assert waiting["name"] == "wait-for-workers"
    assert "initContainers" not in cluster.get("pod", "mpi-worker-0", "-n", namespace)["spec"]


def test_job_with_an_unknown_plugin_is_refused_and_known_plugins_are_listed(cluster: Cluster, namespace: str) -> None:
    said = cluster.refused("create", "-n", namespace, "-f", "examples/invalid/unknown-plugin.yaml")
    assert "unable to find job plugin" in said
    assert "there are env, hcclrank, mpi, pytorch, ray, slurm, ssh, svc, tensorflow" in said


def test_scaling_updates_the_ssh_config_and_keeps_the_keys(cluster: Cluster, namespace: str) -> None:
    lasting = Path("examples/mpi.yaml").read_text().replace('sleep 3"', 'sleep 3600"')
    cluster.create(lasting, namespace)
    cluster.kubectl("wait", "-n", namespace, "--for=jsonpath={.status.state.phase}=Running", "vcjob/mpi", "--timeout=60s")
    before = cluster.get("secret", "mpi-ssh", "-n", namespace)["data"]
    bigger = [
        {"op": "replace", "path": "/spec/tasks/1/replicas", "value": 3},
        {"op": "replace", "path": "/spec/minAvailable", "value": 4},
    ]
    cluster.kubectl("patch", "-n", namespace, "vcjob", "mpi", "--type=json", "-p", json.dumps(bigger))
    cluster.kubectl("wait", "-n", namespace, "--for=create", "pod/mpi-worker-2", "--timeout=60s")
    after = cluster.get("secret", "mpi-ssh", "-n", namespace)["data"]
    assert after["config"] != before["config"]
    assert {**after, "config": ""} == {**before, "config": ""}


def test_deleted_secret_of_a_running_job_is_made_again_when_a_pod_waits_for_it(cluster: Cluster, namespace: str) -> None:
    manifest = json.loads(job("keys", command=["sleep", "600"], plugins={"ssh": []}))
    # longer than the nodes remember a Secret
    manifest["spec"]["tasks"][0]["template"]["metadata"] = {"annotations": {"nodes.pyroclast.dev/start-delay": "3s"}}
    cluster.create(json.dumps(manifest), namespace)
    cluster.kubectl("wait", "-n", namespace, "--for=jsonpath={.status.running}=1", "vcjob/keys", "--timeout=60s")
    (secret,) = cluster.get("secrets", "-n", namespace)["items"]
    cluster.kubectl("delete", "secret", "-n", namespace, secret["metadata"]["name"])
    cluster.kubectl("delete", "pod", "-n", namespace, "keys-worker-0", "--grace-period=0")
    cluster.kubectl("wait", "-n", namespace, "--for=create", f"secret/{secret['metadata']['name']}", "--timeout=80s")
    cluster.kubectl("wait", "-n", namespace, "--for=jsonpath={.status.phase}=Running", "pod/keys-worker-0", "--timeout=60s")
