"""Simulated nodes as the cluster sees them: what pods read, how they fail and come back, a node that is not ready."""

from __future__ import annotations

import json
from typing import Any

from tests.e2e.support.cluster import Cluster, wait_until


def pod(name: str, command: str, *, restart: str = "Never", **spec: Any) -> str:
    container = {"name": "c", "image": "busybox:1.37", "command": ["sh", "-c", command], **spec.pop("container", {})}
    body = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name},
        "spec": {"schedulerName": "volcano", "restartPolicy": restart, "containers": [container], **spec},
    }
    return json.dumps(body)


def test_pod_reads_its_config_map_secret_and_environment(cluster: Cluster, namespace: str) -> None:
    cluster.kubectl("create", "configmap", "settings", "--from-literal=colour=red", "-n", namespace)
    cluster.kubectl("create", "secret", "generic", "hidden", "--from-literal=key=value", "-n", namespace)
    volumes = [{"name": "s", "configMap": {"name": "settings"}}, {"name": "h", "secret": {"secretName": "hidden"}}]
    mounts = [{"name": "s", "mountPath": "/etc/s"}, {"name": "h", "mountPath": "/etc/h"}]
    environment = [
        {"name": "KEY", "valueFrom": {"secretKeyRef": {"name": "hidden", "key": "key"}}},
        {"name": "NODE", "valueFrom": {"fieldRef": {"fieldPath": "spec.nodeName"}}},
        {"name": "COLOUR", "valueFrom": {"configMapKeyRef": {"name": "settings", "key": "colour"}}},
    ]
    manifest = pod(
        "reader", "echo $NODE $COLOUR; echo $KEY", volumes=volumes, container={"volumeMounts": mounts, "env": environment}
    )
    cluster.create(manifest, namespace)
    cluster.kubectl("wait", "-n", namespace, "--for=jsonpath={.status.phase}=Succeeded", "pod/reader", "--timeout=60s")
    node = cluster.get("pod", "reader", "-n", namespace)["spec"]["nodeName"]
    assert cluster.kubectl("logs", "reader", "-n", namespace).split() == [node, "red", "value"]


def test_failing_container_is_restarted_with_backoff_and_repeated_events_are_counted(cluster: Cluster, namespace: str) -> None:
    cluster.create(pod("loops", "exit 1", restart="Always"), namespace)
    state = "{.status.containerStatuses[0].state.waiting.reason}"
    cluster.kubectl("wait", "-n", namespace, f"--for=jsonpath={state}=CrashLoopBackOff", "pod/loops", "--timeout=60s")
    assert cluster.get("pod", "loops", "-n", namespace)["status"]["containerStatuses"][0]["restartCount"] >= 1

    def counts() -> list[int]:
        events = cluster.get("events", "-n", namespace, "--field-selector", "involvedObject.name=loops")["items"]
        return [event.get("count") or (event.get("series") or {}).get("count") or 1 for event in events]

    wait_until(lambda: max(counts(), default=0) > 1, "an event that counts its repetitions", seconds=90)


def test_a_node_that_is_not_ready_takes_no_pods(cluster: Cluster, namespace: str) -> None:
    node = cluster.get("nodes")["items"][-1]["metadata"]["name"]
    ready = "--for=condition=Ready={}"
    cluster.kubectl("annotate", "node", node, "nodes.pyroclast.dev/state=not-ready")
    try:
        cluster.kubectl("wait", ready.format("False"), f"node/{node}", "--timeout=60s")
        cluster.create(pod("elsewhere", "sleep 1"), namespace)
        cluster.kubectl("wait", "-n", namespace, "--for=jsonpath={.status.phase}=Succeeded", "pod/elsewhere", "--timeout=60s")
        assert cluster.get("pod", "elsewhere", "-n", namespace)["spec"]["nodeName"] != node
    finally:
        cluster.kubectl("annotate", "node", node, "nodes.pyroclast.dev/state-")
    cluster.kubectl("wait", ready.format("True"), f"node/{node}", "--timeout=60s")
