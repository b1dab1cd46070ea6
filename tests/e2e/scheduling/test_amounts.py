"""What the API server adds to the amounts of pods counts: for the Job, for its queue and for what users are told."""

from __future__ import annotations

import json

import pytest

from pyroclast.lifecycle.gang.podgroups import pod_usage
from tests.e2e.support.cluster import Cluster, wait_until
from tests.unit.resources.test_pods import CASES, SANDBOX, Case, container, pod

QUEUE = "scheduling.volcano.sh/v1beta1"


def job(name: str, spec: object, *, replicas: int = 1, queue: str = "default") -> str:
    task = {"name": "a", "replicas": replicas, "template": {"spec": spec}}
    body = {"minAvailable": replicas, "queue": queue, "tasks": [task]}
    return json.dumps({"apiVersion": "batch.volcano.sh/v1alpha1", "kind": "Job", "metadata": {"name": name}, "spec": body})


def group_of(cluster: Cluster, namespace: str, name: str) -> dict[str, object]:
    """The PodGroup of a Job, as soon as there is one."""

    def found() -> list[dict[str, object]]:
        return [each for each in cluster.get("podgroups", "-n", namespace)["items"] if each["metadata"]["name"].startswith(name)]

    wait_until(found, f"the PodGroup of {name}")
    return found()[0]


@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
def test_a_job_asks_for_what_the_api_server_stores_in_its_pods(cluster: Cluster, namespace: str, case: Case) -> None:
    runtime = namespace if case.overhead else ""
    if runtime:
        body = {"apiVersion": "node.k8s.io/v1", "kind": "RuntimeClass", "metadata": {"name": runtime}, "handler": "runc"}
        cluster.create(json.dumps({**body, "overhead": {"podFixed": case.overhead}}))
    for number, limits in enumerate(case.ranges):
        body = {"apiVersion": "v1", "kind": "LimitRange", "metadata": {"name": f"range-{number}"}, "spec": {"limits": limits}}
        cluster.create(json.dumps(body), namespace)
    spec = json.loads(json.dumps(case.spec).replace(SANDBOX, runtime or SANDBOX))
    alone = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "alone"}, "spec": {**spec, "schedulerName": "nobody"}}

    def is_seen() -> bool:  # admission of the API server, and the job controller, hear of what was made a moment later
        (stored,) = cluster.create(json.dumps(alone), namespace)
        cluster.create(job("asks", spec), namespace)
        want = {name: str(amount) for name, amount in pod_usage(stored["spec"]).items()}
        asks = group_of(cluster, namespace, "asks")["spec"]["minResources"]  # type: ignore[index]
        for kind, name in (("vcjob", "asks"), ("pod", "alone")):
            cluster.kubectl("delete", kind, name, "-n", namespace, "--now")
        assert asks == want or case.ranges or case.overhead
        return bool(asks == want and case.want.items() <= want.items())

    wait_until(is_seen, "the amounts of a stored pod")
    if runtime:
        cluster.kubectl("delete", "runtimeclass", runtime)


def test_a_queue_counts_limits_of_pods_without_requests(cluster: Cluster, namespace: str) -> None:
    spec = {"weight": 1, "capability": {"cpu": "4", "memory": "8Gi"}}
    cluster.create(json.dumps({"apiVersion": QUEUE, "kind": "Queue", "metadata": {"name": namespace}, "spec": spec}))
    runs = pod(container(command=["sleep", "3600"], limits={"cpu": "2", "memory": "1Gi"}))
    cluster.create(job("one", runs, replicas=2, queue=namespace), namespace)
    cluster.kubectl("wait", "-n", namespace, "--for=jsonpath={.status.state.phase}=Running", "vcjob/one", "--timeout=60s")
    cluster.create(job("two", runs, replicas=2, queue=namespace), namespace)
    cluster.create(job("never", runs, replicas=3, queue=namespace), namespace)

    def told(name: str) -> str:
        conditions = group_of(cluster, namespace, name).get("status", {}).get("conditions") or []  # type: ignore[attr-defined]
        return " ".join(each["message"] for each in conditions)

    wait_until(lambda: "QueueFull: not now" in told("two"), "why the second Job waits")
    wait_until(lambda: "AboveQueueLimit: never" in told("never"), "why the third Job waits")
    assert len(cluster.get("pods", "-n", namespace)["items"]) == 2
    cluster.kubectl("delete", "vcjob", "--all", "-n", namespace, "--wait=true")
    cluster.kubectl("delete", "queue", namespace)
