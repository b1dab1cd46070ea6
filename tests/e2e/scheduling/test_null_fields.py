"""Objects as kubelets write them, with null for an empty list: an image without a name, and a node without CSI drivers."""

from __future__ import annotations

import json
from collections.abc import Iterator

import pytest

from tests.e2e.jobs.test_plain_pods import create, manifest
from tests.e2e.support.cluster import Cluster, wait_until

NAME = "null-names"


@pytest.fixture
def node(cluster: Cluster) -> Iterator[str]:
    amounts = {"cpu": "2", "memory": "4Gi", "pods": "10"}
    status = {
        "capacity": amounts,
        "allocatable": amounts,
        "conditions": [{"type": "Ready", "status": "True", "reason": "KubeletReady"}],
        "images": [{"names": None, "sizeBytes": 5}],
    }
    body = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": NAME, "labels": {"null": "names"}}, "status": status}
    drivers = {"apiVersion": "storage.k8s.io/v1", "kind": "CSINode", "metadata": {"name": NAME}, "spec": {"drivers": None}}
    cluster.kubectl("create", "--validate=false", "-f", "-", stdin=json.dumps(drivers))
    cluster.kubectl("create", "--validate=false", "-f", "-", stdin=json.dumps(body))
    yield NAME
    cluster.kubectl("delete", "node", NAME)
    cluster.kubectl("delete", "csinode", NAME)


def test_a_pod_is_bound_to_a_node_with_null_names_and_no_object_is_called_undecodable(
    cluster: Cluster, node: str, namespace: str
) -> None:
    body = manifest("Pod", "p")
    body["spec"] |= {"nodeSelector": {"null": "names"}, "tolerations": [{"operator": "Exists"}]}
    create(cluster, namespace, body)
    wait_until(lambda: cluster.get("pod", "p", "-n", namespace)["spec"].get("nodeName") == node, "the pod is bound")
    listed = cluster.get("events", "-n", "default")["items"]
    about = [event["message"] for event in listed if event["involvedObject"]["name"] == node and event["type"] == "Warning"]
    assert about == []
