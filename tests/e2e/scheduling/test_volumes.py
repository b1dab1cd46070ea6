"""Pods with claims on volumes or devices: they wait for what is missing, and go where it is or can be made."""

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


VERSION = "resource.k8s.io/v1"


def claiming(name: str, device_claim: str) -> dict[str, Any]:
    body = manifest("Pod", name)
    body["spec"]["resourceClaims"] = [{"name": "gpu", "resourceClaimName": device_claim}]
    body["spec"]["containers"][0]["resources"] = {"claims": [{"name": "gpu"}]}
    return body


def device_claim(name: str, device_class: str) -> dict[str, Any]:
    requests = [{"name": "one", "exactly": {"deviceClassName": device_class}}]
    spec = {"devices": {"requests": requests}}
    return {"apiVersion": VERSION, "kind": "ResourceClaim", "metadata": {"name": name}, "spec": spec}


@pytest.fixture
def device(cluster: Cluster, namespace: str) -> Iterator[str]:
    """One device of a driver and class of the test's own; the name of the node that has it."""
    node: str = cluster.get("nodes")["items"][-1]["metadata"]["name"]
    driver = f"{namespace}.example.com"
    pool = {"name": node, "generation": 1, "resourceSliceCount": 1}
    devices = [{"name": "gpu-1", "attributes": {"model": {"string": "a"}}}]
    spec = {"driver": driver, "pool": pool, "nodeName": node, "devices": devices}
    expression = f'device.driver == "{driver}" && device.attributes["{driver}"].model == "a"'
    bodies: list[dict[str, Any]] = [
        {"apiVersion": VERSION, "kind": "ResourceSlice", "metadata": {"name": namespace}, "spec": spec},
        {
            "apiVersion": VERSION,
            "kind": "DeviceClass",
            "metadata": {"name": namespace},
            "spec": {"selectors": [{"cel": {"expression": expression}}]},
        },
    ]
    for body in bodies:
        cluster.create(json.dumps(body))
    yield node
    if cluster.control_plane == "embedded":  # nothing there releases the devices of deleted pods
        free = json.dumps({"metadata": {"finalizers": None}})
        cluster.kubectl("patch", "resourceclaim", "mine", "-n", namespace, "--type=merge", "-p", free)
    cluster.kubectl("delete", f"resourceslice/{namespace}", f"deviceclass/{namespace}")


def test_pod_with_a_resource_claim_gets_the_device_and_a_second_pod_waits(cluster: Cluster, namespace: str, device: str) -> None:
    create(cluster, namespace, device_claim("mine", namespace))
    create(cluster, namespace, claiming("first", "mine"))
    wait_until(lambda: found(cluster, namespace, "first")["status"]["phase"] == "Running", "the pod to run")
    assert found(cluster, namespace, "first")["spec"]["nodeName"] == device
    made = cluster.get("resourceclaim", "mine", "-n", namespace)
    (result,) = made["status"]["allocation"]["devices"]["results"]
    assert (result["pool"], result["device"], result["request"]) == (device, "gpu-1", "one")
    assert [each["name"] for each in made["status"]["reservedFor"]] == ["first"]
    assert "resource.kubernetes.io/delete-protection" in made["metadata"]["finalizers"]
    create(cluster, namespace, device_claim("other", namespace))
    create(cluster, namespace, claiming("second", "other"))
    wait_until(lambda: "cannot allocate all claims" in told(cluster, namespace, "second"), "the pod to tell")
    assert not found(cluster, namespace, "second")["spec"].get("nodeName")
