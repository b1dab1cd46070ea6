"""Pods with claims on volumes: they wait for claims that are missing, and go where their volumes are or can be made."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest

from tests.e2e.jobs.test_plain_pods import create, manifest
from tests.e2e.support.cluster import Cluster, wait_until

SELECTED = "volume.kubernetes.io/selected-node"


def pod(name: str, claim: str) -> dict[str, Any]:
    body = manifest("Pod", name)
    body["spec"]["volumes"] = [{"name": "data", "persistentVolumeClaim": {"claimName": claim}}]
    return body


def claim(name: str, storage_class: str) -> dict[str, Any]:
    spec = {
        "storageClassName": storage_class,
        "accessModes": ["ReadWriteOnce"],
        "resources": {"requests": {"storage": "1Gi"}},
    }
    return {"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": {"name": name}, "spec": spec}


def volume(name: str, storage_class: str, node: str, **spec: Any) -> dict[str, Any]:
    expression = {"key": "kubernetes.io/hostname", "operator": "In", "values": [node]}
    return {
        "apiVersion": "v1",
        "kind": "PersistentVolume",
        "metadata": {"name": name},
        "spec": {
            "storageClassName": storage_class,
            "accessModes": ["ReadWriteOnce"],
            "capacity": {"storage": "2Gi"},
            "persistentVolumeReclaimPolicy": "Retain",
            "local": {"path": "/mnt"},
            "nodeAffinity": {"required": {"nodeSelectorTerms": [{"matchExpressions": [expression]}]}},
            **spec,
        },
    }


@pytest.fixture
def storage_class(cluster: Cluster, namespace: str, request: pytest.FixtureRequest) -> Iterator[str]:
    """A class whose volumes wait for their pod, made by the provisioner that the test names."""
    body = {
        "apiVersion": "storage.k8s.io/v1",
        "kind": "StorageClass",
        "metadata": {"name": namespace},
        "provisioner": request.param,
        "volumeBindingMode": "WaitForFirstConsumer",
    }
    cluster.create(json.dumps(body))
    yield namespace
    cluster.kubectl("delete", "storageclass", namespace)
    cluster.kubectl("delete", "pv", namespace, "--wait=false", "--ignore-not-found")


def found(cluster: Cluster, namespace: str, name: str) -> dict[str, Any]:
    return cluster.get("pod", name, "-n", namespace)


def told(cluster: Cluster, namespace: str, name: str) -> str:
    conditions = found(cluster, namespace, name)["status"].get("conditions", [])
    return " ".join(each.get("message", "") for each in conditions if each["type"] == "PodScheduled")


@pytest.mark.parametrize("storage_class", ["kubernetes.io/no-provisioner"], indirect=True)
def test_pod_waits_for_its_volume_claim_and_is_placed_on_the_node_of_the_volume(
    cluster: Cluster, namespace: str, storage_class: str
) -> None:
    create(cluster, namespace, pod("p", "data"))
    wait_until(lambda: 'persistentvolumeclaim "data" not found' in told(cluster, namespace, "p"), "the pod to tell")
    assert not found(cluster, namespace, "p")["spec"].get("nodeName")
    node = cluster.get("nodes")["items"][-1]["metadata"]
    cluster.kubectl("label", "node", node["name"], f"kubernetes.io/hostname={node['name']}", "--overwrite")
    create(cluster, namespace, volume(namespace, storage_class, node["name"]))
    create(cluster, namespace, claim("data", storage_class))
    wait_until(lambda: found(cluster, namespace, "p")["status"]["phase"] == "Running", "the pod to run")
    assert found(cluster, namespace, "p")["spec"]["nodeName"] == node["name"]
    bound = cluster.get("pvc", "data", "-n", namespace)
    assert (bound["status"]["phase"], bound["spec"]["volumeName"]) == ("Bound", namespace)


@pytest.mark.parametrize("storage_class", ["test.example.com/maker"], indirect=True)
def test_pod_is_bound_only_after_its_volume_is_provisioned_on_the_selected_node(
    cluster: Cluster, namespace: str, storage_class: str
) -> None:
    create(cluster, namespace, claim("data", storage_class))
    create(cluster, namespace, pod("p", "data"))

    def chosen() -> str | None:
        annotations = cluster.get("pvc", "data", "-n", namespace)["metadata"].get("annotations", {})
        name: str | None = annotations.get(SELECTED)
        return name

    wait_until(chosen, "a node to be chosen")
    node = chosen()
    assert node is not None
    assert not found(cluster, namespace, "p")["spec"].get("nodeName"), "bound before its volume was there"
    reference = {"kind": "PersistentVolumeClaim", "apiVersion": "v1", "namespace": namespace, "name": "data"}
    create(cluster, namespace, volume(namespace, storage_class, node, claimRef=reference))
    wait_until(lambda: found(cluster, namespace, "p")["status"]["phase"] == "Running", "the pod to run")
    assert found(cluster, namespace, "p")["spec"]["nodeName"] == node
