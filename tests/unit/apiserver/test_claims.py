"""Claims: bound, protected and released as the volume controllers of Kubernetes do it."""

from __future__ import annotations

from typing import Any

import pytest

from pyroclast_standalone.apiserver.controllers import claims

from .conftest import PODS, Api, pod

CLAIMS = "/api/v1/namespaces/default/persistentvolumeclaims"
VOLUMES = "/api/v1/persistentvolumes"
CLASSES = "/apis/storage.k8s.io/v1/storageclasses"


def claim(name: str, size: str = "1Gi", **spec: Any) -> dict[str, Any]:
    spec = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": size}}, **spec}
    return {"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": {"name": name}, "spec": spec}


def volume(name: str, size: str, **spec: Any) -> dict[str, Any]:
    spec = {"accessModes": ["ReadWriteOnce"], "capacity": {"storage": size}, "hostPath": {"path": "/x"}, **spec}
    return {"apiVersion": "v1", "kind": "PersistentVolume", "metadata": {"name": name}, "spec": spec}


def user(name: str, claim_name: str, **spec: Any) -> dict[str, Any]:
    return pod(name, volumes=[{"name": "v", "persistentVolumeClaim": {"claimName": claim_name}}], **spec)


async def phase(api: Api, path: str) -> str:
    await api.server.settle()
    return str((await api.get(path)).body.get("status", {}).get("phase"))


async def test_a_claim_takes_the_smallest_volume_that_fits(api: Api) -> None:
    for name, size in (("large", "5Gi"), ("small", "1Gi"), ("medium", "2Gi")):
        assert (await api.post(VOLUMES, volume(name, size))).code == 201
    assert await phase(api, f"{VOLUMES}/large") == "Available"
    await api.post(CLAIMS, claim("c", "2Gi"))
    assert await phase(api, f"{CLAIMS}/c") == "Bound"
    bound = (await api.get(f"{CLAIMS}/c")).body
    assert bound["spec"]["volumeName"] == "medium"
    assert bound["status"]["capacity"] == {"storage": "2Gi"}
    assert (await api.get(f"{VOLUMES}/medium")).body["spec"]["claimRef"]["uid"] == bound["metadata"]["uid"]
    await api.delete(f"{CLAIMS}/c")
    assert await phase(api, f"{VOLUMES}/medium") == "Released"


async def test_claim_stays_pending_with_an_event_until_a_volume_fits(api: Api) -> None:
    await api.post(CLAIMS, claim("c"))
    assert await phase(api, f"{CLAIMS}/c") == "Pending"
    told = (await api.get("/api/v1/namespaces/default/events")).body["items"]
    assert [each["reason"] for each in told] == ["FailedBinding"]
    await api.post(VOLUMES, volume("later", "1Gi"))
    assert await phase(api, f"{CLAIMS}/c") == "Bound"


async def test_default_storage_class_provisions_a_volume_that_is_deleted_with_its_claim(api: Api) -> None:
    marks = {"storageclass.kubernetes.io/is-default-class": "true"}
    metadata = {"name": "standard", "annotations": marks}
    await api.post(CLASSES, {"metadata": metadata, "provisioner": claims.PROVISIONER})
    await api.post(CLAIMS, claim("c"))
    assert await phase(api, f"{CLAIMS}/c") == "Bound"
    name = (await api.get(f"{CLAIMS}/c")).body["spec"]["volumeName"]
    assert await phase(api, f"{VOLUMES}/{name}") == "Bound"
    await api.delete(f"{CLAIMS}/c")
    await api.server.settle()
    assert (await api.get(f"{VOLUMES}/{name}")).code == 404


async def test_a_claim_stays_while_a_pod_with_a_node_uses_it(api: Api) -> None:
    await api.post(CLAIMS, claim("c"))
    await api.post(PODS, user("waits", "c"))
    await api.post(PODS, user("runs", "c", nodeName="n1"))
    await api.delete(f"{CLAIMS}/c")
    await api.server.settle()
    assert "deletionTimestamp" in (await api.get(f"{CLAIMS}/c")).body["metadata"]
    await api.delete(f"{PODS}/runs?gracePeriodSeconds=0")
    await api.server.settle()
    assert (await api.get(f"{CLAIMS}/c")).code == 404


async def test_namespace_with_a_claim_can_be_deleted(api: Api) -> None:
    await api.post("/api/v1/namespaces", {"metadata": {"name": "short"}})
    await api.post("/api/v1/namespaces/short/persistentvolumeclaims", claim("c"))
    await api.delete("/api/v1/namespaces/short")
    await api.server.settle()
    assert (await api.get("/api/v1/namespaces/short")).code == 404


CLAIM = {**claim("c"), "metadata": {"name": "c", "namespace": "ns", "uid": "u"}}


@pytest.mark.parametrize(
    ("chosen", "is_used", "want"),
    [
        (None, False, "FailedBinding: no persistent volumes available"),
        ({"provisioner": "example.com/x"}, False, "ExternalProvisioning: nothing here makes volumes"),
        (
            {"provisioner": claims.PROVISIONER, "volumeBindingMode": "WaitForFirstConsumer"},
            False,
            "WaitForFirstConsumer: waiting for first consumer",
        ),
    ],
    ids=["no class", "another provisioner", "nobody uses it yet"],
)
def test_unprovisioned_claim_reports_the_reason(chosen: dict[str, Any] | None, is_used: bool, want: str) -> None:
    told = claims.provided_by(CLAIM, chosen, is_used=is_used)
    assert isinstance(told, str)
    assert told.startswith(want)


def test_reserved_volume_is_offered_only_to_its_claim() -> None:
    free = {"status": {"phase": "Available"}}
    reserved = {**volume("v", "1Gi", claimRef={"namespace": "ns", "name": "other"}), **free}
    own = {**volume("w", "9Gi", claimRef={"namespace": "ns", "name": "c"}), **free}
    assert claims.best_of(CLAIM, [reserved]) is None
    assert claims.best_of(CLAIM, [{**volume("s", "1Gi"), **free}, own]) is own
