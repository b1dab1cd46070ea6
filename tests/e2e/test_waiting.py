"""Why a Job does not start: the same one cause on the Job, its PodGroup and its pods."""

from __future__ import annotations

import json

import pytest

from pyroclast.api import pending
from tests.e2e.cluster import Cluster, wait_until

CASES = {
    "AboveCluster: never: it asks for 5k cpu in all, and the cluster has": {"cpu": "1000"},
    "AboveCluster: never: it asks for 5 example.com/none in all, and the cluster has no example.com/none": {
        "example.com/none": "1"
    },
    "NoNodeBigEnough: never: j-a-0 asks for 10 cpu; the biggest node, ": {"cpu": "10", "replicas": "1"},
}


@pytest.mark.parametrize(("words", "asks"), CASES.items(), ids=lambda value: str(value)[:30])
def test_the_cause_is_the_same_wherever_one_asks(cluster: Cluster, namespace: str, words: str, asks: dict[str, str]) -> None:
    resources = {name: amount for name, amount in asks.items() if name != "replicas"}
    container = {"name": "c", "image": "busybox:1.37", "command": ["sleep", "1"]}
    container["resources"] = {"requests": resources, "limits": resources}  # type: ignore[assignment]
    task = {"name": "a", "replicas": int(asks.get("replicas", "5"))}
    template = {"spec": {"containers": [container], "restartPolicy": "Never"}}
    manifest = {
        "apiVersion": "batch.volcano.sh/v1alpha1",
        "kind": "Job",
        "metadata": {"name": "j"},
        "spec": {"tasks": [{**task, "template": template}]},
    }
    cluster.kubectl("create", "-n", namespace, "-f", "-", stdin=json.dumps(manifest))

    def on_job() -> str:
        return str(cluster.get("vcjob", "j", "-n", namespace).get("status", {}).get("state", {}).get("message", ""))

    wait_until(lambda: words in on_job(), "the Job to say why it waits")
    (group,) = cluster.get("podgroups.scheduling.volcano.sh", "-n", namespace)["items"]
    (condition,) = (each for each in group["status"]["conditions"] if each["type"] == "Unschedulable")
    summary = pending.summary_of(condition["message"])
    assert on_job() == f"waits: {summary}"
    pods = cluster.get("pods", "-n", namespace)["items"]

    def on_pods() -> list[str]:
        found = cluster.get("pods", "-n", namespace)["items"]
        conditions = [each for pod in found for each in pod["status"].get("conditions", []) if each["type"] == "PodScheduled"]
        return [pending.summary_of(each["message"]) for each in conditions]

    wait_until(lambda: on_pods() == [summary] * len(pods), "the pods to say the same")
