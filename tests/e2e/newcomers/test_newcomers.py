"""What new users once stumbled over, each asked again as they would."""

from __future__ import annotations

import json
import subprocess
from typing import Any

import pytest

from pyroclast.api.keys import GROUP_NAME
from tests.e2e.support.cluster import Cluster, wait_until

QUIET = {"restartPolicy": "Never"}
JOB = "batch.volcano.sh/v1alpha1"
CLAIM = {"spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Mi"}}}}


def job(name: str, command: str, replicas: int = 1, *, pod: dict[str, Any] | None = None, **spec: Any) -> str:
    container: dict[str, Any] = {"name": "c", "image": "busybox:1.37", "command": ["sh", "-c", command]}
    container["resources"] = {"requests": {"cpu": "10m"}}  # pods that ask for nothing are placed one by one, each with its event
    template = {"spec": {**QUIET, **(pod or {}), "containers": [container]}}
    tasks = [{"name": "t", "replicas": replicas, "template": template}]
    return json.dumps({"apiVersion": JOB, "kind": "Job", "metadata": {"name": name}, "spec": {"tasks": tasks, **spec}})


def command(action: str, target: str, uid: str = "") -> str:
    aim = {"apiVersion": JOB, "kind": "Job", "name": target, "uid": uid, "controller": True}
    metadata = {"generateName": "order-"}
    return json.dumps(
        {"apiVersion": "bus.volcano.sh/v1alpha1", "kind": "Command", "metadata": metadata, "action": action, "target": aim}
    )


def phase(cluster: Cluster, namespace: str, name: str) -> str:
    return str(cluster.get("vcjob", name, "-n", namespace).get("status", {}).get("state", {}).get("phase", ""))


def create(cluster: Cluster, namespace: str, manifest: str) -> str:
    """What `kubectl create` says on standard error: warnings."""
    done = subprocess.run(
        ["kubectl", "--kubeconfig", str(cluster.kubeconfig), "create", "-n", namespace, "-f", "-"],
        input=manifest,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stderr


def events(cluster: Cluster, namespace: str, name: str) -> list[str]:
    """The messages about an object, or about all."""
    selector = ("--field-selector", f"involvedObject.name={name}") if name else ()
    return [each["message"] for each in cluster.get("events", "-n", namespace, *selector)["items"]]


def test_pod_logs_stay_readable_after_the_mounted_config_map_is_deleted(cluster: Cluster, namespace: str) -> None:
    """Also when the ConfigMap that it mounted is gone."""
    create(cluster, namespace, job("j", "echo done", plugins={"svc": []}))
    wait_until(lambda: phase(cluster, namespace, "j") == "Completed", "the Job to complete")
    wait_until(
        lambda: not cluster.get("configmaps", "-n", namespace, "--field-selector", "metadata.name=j-svc")["items"],
        "its hosts to go",
    )
    if cluster.control_plane == "embedded":  # nodes of the real one are reached through certificates that it has not
        assert cluster.kubectl("logs", "j-t-0", "-n", namespace) == "done\n"


def test_unused_volume_claim_can_be_deleted(cluster: Cluster, namespace: str) -> None:
    create(
        cluster, namespace, json.dumps({"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": {"name": "c"}, **CLAIM})
    )
    cluster.kubectl("delete", "pvc", "c", "-n", namespace, "--timeout=60s")


def test_namespace_with_a_volume_claim_in_use_can_be_deleted(cluster: Cluster, namespace: str) -> None:
    """The claim is protected while the pod is there, and both go with the namespace."""
    own = f"{namespace}-own"
    cluster.make_namespace(own)
    create(cluster, own, json.dumps({"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": {"name": "c"}, **CLAIM}))
    volumes = [{"name": "v", "persistentVolumeClaim": {"claimName": "c"}}]
    create(cluster, own, job("j", "sleep 600", pod={"volumes": volumes, "terminationGracePeriodSeconds": 0}))
    wait_until(lambda: cluster.get("pods", "-n", own)["items"], "its pod")
    cluster.kubectl("delete", "namespace", own, "--timeout=60s", timeout=90)


def uid_of(cluster: Cluster, namespace: str) -> str:
    return str(cluster.get("vcjob", "j", "-n", namespace)["metadata"]["uid"])


def test_command_without_effect_is_refused_or_reported_in_an_event(cluster: Cluster, namespace: str) -> None:
    create(cluster, namespace, job("j", "sleep 600"))
    wait_until(lambda: phase(cluster, namespace, "j") == "Running", "the Job to run")
    said = cluster.refused("create", "-n", namespace, "-f", "-", stdin=command("Explode", "j"))
    assert 'action: Unsupported value: "Explode": supported values: "AbortJob", ' in said
    right, wrong = uid_of(cluster, namespace), "00000000-0000-0000-0000-000000000000"
    for name, words in (("j", f"has the uid {right}"), ("nobody", "nobody")):
        said = cluster.refused("create", "-n", namespace, "-f", "-", stdin=command("AbortJob", name, wrong))
        assert words in said
    create(cluster, namespace, command("ResumeJob", "j", right))
    words = "ResumeJob had no effect: that means nothing to a Job that is Running"
    wait_until(lambda: any(words in each for each in events(cluster, namespace, "j")), "the needless action to be told")
    assert phase(cluster, namespace, "j") == "Running"


def test_failed_job_message_names_the_pod_and_exit_code(cluster: Cluster, namespace: str) -> None:
    policies = [{"event": "PodFailed", "action": "RestartJob"}]
    create(cluster, namespace, job("j", "exit 7", maxRetry=1, policies=policies))
    wait_until(lambda: phase(cluster, namespace, "j") == "Failed", "the Job to fail")
    message = cluster.get("vcjob", "j", "-n", namespace)["status"]["state"]["message"]
    assert "j-t-0" in message
    assert "exit code 7" in message


def test_missing_priority_class_causes_a_warning_and_delays_the_job_until_it_exists(cluster: Cluster, namespace: str) -> None:
    """On the Job, on a task, and on a pod of a template; counts stay true; the class, once it is there, is enough."""
    missing = "newcomers-urgent"
    warned = create(cluster, namespace, job("j", "sleep 600", 2, pod={"priorityClassName": missing}))
    text = f'there is no PriorityClass "{missing}"; no pod of it is made until there is one'
    assert f"Warning: spec.tasks[0].template.spec.priorityClassName: {text}" in warned
    assert f"Warning: spec.priorityClassName: {text}" in create(
        cluster, namespace, job("k", "sleep 600", priorityClassName=missing)
    )

    def state() -> dict[str, Any]:
        found: dict[str, Any] = cluster.get("vcjob", "j", "-n", namespace).get("status", {})
        return found

    wait_until(lambda: missing in state().get("state", {}).get("message", ""), "the Job to say which class is missing")
    assert state()["state"]["phase"] == "Pending"
    assert not state().get("running")
    assert not [each for each in cluster.get("pods", "-n", namespace)["items"] if each["metadata"]["name"].startswith("j-")]
    priority = {"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass", "metadata": {"name": missing}, "value": 10}
    create(cluster, namespace, json.dumps(priority))
    try:
        wait_until(lambda: phase(cluster, namespace, "j") == "Running", "the Job to run once the class is there", seconds=120)
        assert state()["running"] == 2
    finally:
        cluster.kubectl("delete", "vcjob", "--all", "-n", namespace)
        cluster.kubectl("delete", "priorityclass", missing)


def test_creating_a_child_queue_warns_and_jobs_for_its_parent_are_refused(cluster: Cluster, namespace: str) -> None:
    """Not below `default`: other tests use it at the same time. The rule is the same for all."""
    kind = {"apiVersion": "scheduling.volcano.sh/v1beta1", "kind": "Queue"}
    create(cluster, namespace, json.dumps({**kind, "metadata": {"name": "newcomers"}, "spec": {}}))
    try:
        below = {**kind, "metadata": {"name": "newcomers-below"}, "spec": {"parent": "newcomers"}}
        warned = create(cluster, namespace, json.dumps(below))
        assert (
            "Warning: spec.parent: queue newcomers has queues below it from now on, so jobs that name it are refused; " in warned
        )
        said = cluster.refused("create", "-n", namespace, "-f", "-", stdin=job("j", "true", queue="newcomers"))
        assert "name one below it, such as newcomers-below" in said
    finally:
        for name in ("newcomers-below", "newcomers"):
            cluster.kubectl("delete", "queue.scheduling.volcano.sh", name, "--ignore-not-found", "--timeout=60s")


@pytest.mark.parametrize("kind", ["deployment", "job", "cronjob", "pod"])
def test_embedded_server_warns_of_workloads_that_no_controller_runs(cluster: Cluster, namespace: str, kind: str) -> None:
    template: dict[str, Any] = {
        "metadata": {"labels": {"a": "b"}},
        "spec": {**QUIET, "containers": [{"name": "c", "image": "busybox:1.37"}]},
    }
    batch: dict[str, Any] = {"apiVersion": "batch/v1", "metadata": {"name": "x"}}
    always = {**template, "spec": {**template["spec"], "restartPolicy": "Always"}}
    selector = {"matchLabels": {"a": "b"}}
    made: dict[str, dict[str, Any]] = {
        "deployment": {"apiVersion": "apps/v1", "kind": "Deployment", "spec": {"selector": selector, "template": always}},
        "job": {**batch, "kind": "Job", "spec": {"template": template}},
        "cronjob": {
            **batch,
            "kind": "CronJob",
            "spec": {"schedule": "0 0 1 1 *", "jobTemplate": {"spec": {"template": template}}},
        },
        "pod": {"apiVersion": "v1", "kind": "Pod", "spec": {**template["spec"], "schedulerName": "another"}},
    }
    warned = create(cluster, namespace, json.dumps({"metadata": {"name": "x"}, **made[kind]}))
    words = 'no scheduler named "another" runs here' if kind == "pod" else "runs nothing for them"
    assert (words in warned) == (cluster.control_plane == "embedded"), warned


def test_gang_pods_share_scheduled_events_and_need_one_binding_write_each(cluster: Cluster, namespace: str) -> None:
    """And none costs a write for it: one request of the scheduler for each pod, which is its binding."""
    create(cluster, namespace, job("j", "sleep 600", 6))
    wait_until(lambda: phase(cluster, namespace, "j") == "Running", "the gang to run")
    names = {each["metadata"]["name"] for each in cluster.get("pods", "-n", namespace)["items"]}

    def told() -> list[dict[str, Any]]:
        """The events to which a pod leads that is none of those that have one."""
        group = cluster.get("pod", max(names), "-n", namespace)["metadata"]["annotations"][GROUP_NAME]
        found: list[dict[str, Any]] = cluster.get("events", "-n", namespace, "-l", f"{GROUP_NAME}={group}")["items"]
        return found

    wait_until(told, "the event of the placement")
    assert {each["reason"] for each in told()} == {"Scheduled"}
    assert {each["involvedObject"]["name"] for each in told()} < names, "fewer events than pods"
    assert all("Successfully assigned" in each["message"] for each in told())
    assert f"{GROUP_NAME}: j-" in cluster.kubectl("describe", "pod", max(names), "-n", namespace)

    requests = [(each["verb"], each.get("objectRef", {}), each) for each in cluster.audit.events()]
    written = [
        (verb, about.get("subresource"), about.get("name"))
        for verb, about, each in requests
        if each["user"]["username"].endswith(":pyroclast-scheduler")
        and (about.get("resource"), about.get("namespace")) == ("pods", namespace)
        and verb in {"create", "update", "patch"}
        and about.get("subresource") != "status"  # of pods that had to wait for the last of their gang
        and each["responseStatus"]["code"] < 300
    ]
    assert sorted(written) == sorted(("create", "binding", name) for name in names)
