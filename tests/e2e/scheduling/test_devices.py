"""Pods with claims on devices: they get devices that their class and expressions select, and go where these are."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest

from tests.e2e.jobs.test_plain_pods import create, manifest
from tests.e2e.scheduling.test_volumes import found, told
from tests.e2e.support.cluster import Cluster, wait_until

VERSION = "resource.k8s.io/v1"


def pod(name: str, claim: str) -> dict[str, Any]:
    body = manifest("Pod", name)
    body["spec"]["resourceClaims"] = [{"name": "gpu", "resourceClaimName": claim}]
    body["spec"]["containers"][0]["resources"] = {"claims": [{"name": "gpu"}]}
    return body


def claim(name: str, device_class: str) -> dict[str, Any]:
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
    create(cluster, namespace, claim("mine", namespace))
    create(cluster, namespace, pod("first", "mine"))
    wait_until(lambda: found(cluster, namespace, "first")["status"]["phase"] == "Running", "the pod to run")
    assert found(cluster, namespace, "first")["spec"]["nodeName"] == device
    made = cluster.get("resourceclaim", "mine", "-n", namespace)
    (result,) = made["status"]["allocation"]["devices"]["results"]
    assert (result["pool"], result["device"], result["request"]) == (device, "gpu-1", "one")
    assert [each["name"] for each in made["status"]["reservedFor"]] == ["first"]
    assert "resource.kubernetes.io/delete-protection" in made["metadata"]["finalizers"]
    create(cluster, namespace, claim("other", namespace))
    create(cluster, namespace, pod("second", "other"))
    wait_until(lambda: "cannot allocate all claims" in told(cluster, namespace, "second"), "the pod to tell")
    assert not found(cluster, namespace, "second")["spec"].get("nodeName")
