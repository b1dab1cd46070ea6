"""What our controllers create by the rules of the webhooks: no webhook is called, and it is the same as what a user creates."""

from __future__ import annotations

import json
import re
from typing import Any

from tests.e2e.support.cluster import Cluster, wait_until

FLOWS = "flow.volcano.sh/v1alpha1"
LEFT_OUT = (
    *("/jobs/mutate", "/jobs/validate", "/podgroups/mutate", "/podgroups/validate"),
    *("/pods/mutate", "/pods/validate", "/commands/validate"),
)


def template(name: str, **spec: Any) -> dict[str, Any]:
    containers = [{"name": "c", "image": "busybox", "command": ["sleep", "1"], "ports": [{"containerPort": 80}]}]
    pod = {"restartPolicy": "Never", "containers": containers}
    task = {"replicas": 2, "template": {"spec": pod}}
    return {"apiVersion": FLOWS, "kind": "JobTemplate", "metadata": {"name": name}, "spec": {"tasks": [task], **spec}}


def flow(name: str, *entries: str) -> dict[str, Any]:
    spec = {"flows": [{"name": entry} for entry in entries]}
    return {"apiVersion": FLOWS, "kind": "JobFlow", "metadata": {"name": name}, "spec": spec}


def reviews(cluster: Cluster) -> dict[str, float]:
    """How often each webhook was asked that leaves our controllers out."""
    found = re.findall(
        r'^pyroclast_admission_reviews_total\{outcome="[^"]*",webhook="([^"]*)"\} (\S+)$',
        cluster.metrics("admission"),
        re.MULTILINE,
    )
    return {path: sum(float(count) for each, count in found if each == path) for path in LEFT_OUT}


def create(cluster: Cluster, namespace: str, *objects: dict[str, Any]) -> None:
    manifests = json.dumps({"apiVersion": "v1", "kind": "List", "items": list(objects)})
    cluster.create(manifests, namespace)


def test_job_of_a_jobflow_gets_the_same_spec_as_a_user_job_without_webhook_calls(cluster: Cluster, namespace: str) -> None:
    made = template("a", plugins={"svc": []}, maxRetry=0)
    made["spec"]["tasks"].append({"name": "w", **made["spec"]["tasks"][0]})
    create(cluster, namespace, made)
    stored = cluster.get("jobtemplate", "a", "-n", namespace)["spec"]
    before = reviews(cluster)
    create(cluster, namespace, flow("f", "a"))
    wait_until(lambda: len(cluster.get("pods", "-n", namespace)["items"]) == 4, "the pods of the flow")
    assert reviews(cluster) == before
    job = {"apiVersion": "batch.volcano.sh/v1alpha1", "kind": "Job", "metadata": {"name": "user"}, "spec": stored}
    create(cluster, namespace, job)
    ours, theirs = (cluster.get("vcjob", name, "-n", namespace) for name in ("f-a", "user"))
    assert ours["spec"] == theirs["spec"]
    managers = {each["manager"] for each in ours["metadata"]["managedFields"]}
    assert managers <= {"pyroclast-jobflow-controller", "pyroclast-job-controller"}
    after = reviews(cluster)
    asked = {path for path in LEFT_OUT if after[path] > before[path]}
    assert asked == {"/jobs/mutate", "/jobs/validate"}, "the webhooks see what users create"


def test_pods_of_vcjobs_call_the_pod_webhook_only_with_a_resource_group_annotation(cluster: Cluster, namespace: str) -> None:
    spec = template("a")["spec"]
    asking = json.loads(json.dumps(spec))
    asking["tasks"][0]["template"]["metadata"] = {"annotations": {"volcano.sh/resource-group": "nobodys"}}
    for name, tasks, calls in (("plain", spec, 0), ("asking", asking, 2)):
        before = reviews(cluster)["/pods/mutate"]
        create(
            cluster,
            namespace,
            {"apiVersion": "batch.volcano.sh/v1alpha1", "kind": "Job", "metadata": {"name": name}, "spec": tasks},
        )

        def exist(name: str = name) -> bool:
            return len(cluster.get("pods", "-n", namespace, "-l", f"volcano.sh/job-name={name}")["items"]) == 2

        wait_until(exist, f"the pods of {name}")
        asked = reviews(cluster)["/pods/mutate"] - before
        assert asked >= calls if calls else asked == 0  # with seats there is a dry run beside
