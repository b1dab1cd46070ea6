"""Objects beside nodes, queues and pods of a scenario, and what is written for claims.

storageClasses: {name: {provisioner, mode, zones: [..]}}      mode: WaitForFirstConsumer or Immediate
volumes: {name: {class, size, modes, nodes: [..], zone, phase, claim, driver}}
claims: {name: {class, size, modes, volume, node, owner}}     volume: it is bound to that one
csiNodes: {node: {driver: limit}}
namespaces: {name: labels}, services: {name: selector}
budgets: [{name, selector, allowed, disrupted: [pod]}]           quotas: [{name, hard, used}]
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import msgspec

from pyroclast.api import records
from pyroclast.api.records.meta import Record
from pyroclast_scheduler.cache.cache import Cache
from pyroclast_scheduler.session.outcome import Binds, Commit
from tests.scenarios import objects

from .objects import NAMESPACE


def of(tables: Mapping[str, Any]) -> Iterator[Record]:
    """The records of all that the tables name."""
    for name, each in (tables.get("storageClasses") or {}).items():
        yield storage_class(name, each)
    for name, each in (tables.get("volumes") or {}).items():
        yield volume(name, each)
    for name, each in (tables.get("claims") or {}).items():
        yield claim(name, each)
    for name, labels in (tables.get("namespaces") or {}).items():
        yield msgspec.convert({"metadata": {"name": name, "labels": labels}}, records.Namespace)
    for name, selector in (tables.get("services") or {}).items():
        metadata = {"namespace": NAMESPACE, "name": name}
        yield msgspec.convert({"metadata": metadata, "spec": {"selector": selector}}, records.Service)
    for each in tables.get("budgets") or []:
        yield objects.disruption_budget(each)
    for each in tables.get("quotas") or []:
        yield objects.resource_quota(each["hard"], each["used"], name=each["name"])
    for name, limits in (tables.get("csiNodes") or {}).items():
        drivers = [{"name": driver, "allocatable": {"count": limit}} for driver, limit in limits.items()]
        yield msgspec.convert({"metadata": {"name": name}, "spec": {"drivers": drivers}}, records.CsiNode)


def storage_class(name: str, given: Mapping[str, Any]) -> records.StorageClass:
    body: dict[str, Any] = {
        "metadata": {"name": name},
        "provisioner": given.get("provisioner", "kubernetes.io/no-provisioner"),
        "volumeBindingMode": given.get("mode", "WaitForFirstConsumer"),
    }
    if "zones" in given:
        body["allowedTopologies"] = [{"matchLabelExpressions": [{"key": "zone", "values": given["zones"]}]}]
    return msgspec.convert(body, records.StorageClass)


def volume(name: str, given: Mapping[str, Any]) -> records.PersistentVolume:
    spec: dict[str, Any] = {
        "capacity": {"storage": given.get("size", "10Gi")},
        "accessModes": given.get("modes", ["ReadWriteOnce"]),
        "storageClassName": given.get("class", ""),
    }
    if "nodes" in given:
        expression = {"key": "kubernetes.io/hostname", "operator": "In", "values": given["nodes"]}
        spec["nodeAffinity"] = {"required": {"nodeSelectorTerms": [{"matchExpressions": [expression]}]}}
    if "claim" in given:
        spec["claimRef"] = {"namespace": NAMESPACE, "name": given["claim"], "uid": given["claim"]}
    if "driver" in given:
        spec["csi"] = {"driver": given["driver"], "volumeHandle": name}
    labels = {"topology.kubernetes.io/zone": given["zone"]} if "zone" in given else {}
    status = {"phase": given.get("phase", "Bound" if "claim" in given else "Available")}
    metadata = {"name": name, "uid": name, "labels": labels, "resourceVersion": "1"}
    return msgspec.convert({"metadata": metadata, "spec": spec, "status": status}, records.PersistentVolume)


def claim(name: str, given: Mapping[str, Any]) -> records.PersistentVolumeClaim:
    annotations: dict[str, str] = {}
    if "volume" in given:
        annotations["pv.kubernetes.io/bind-completed"] = "yes"
    if "node" in given:
        annotations["volume.kubernetes.io/selected-node"] = given["node"]
    metadata: dict[str, Any] = {"namespace": NAMESPACE, "name": name, "uid": name, "annotations": annotations}
    if "owner" in given:
        metadata["ownerReferences"] = [{"kind": "Pod", "name": given["owner"], "uid": f"t-{given['owner']}"}]
    spec = {
        "storageClassName": given.get("class", ""),
        "accessModes": given.get("modes", ["ReadWriteOnce"]),
        "resources": {"requests": {"storage": given.get("size", "5Gi")}},
        "volumeName": given.get("volume", ""),
    }
    status = {"phase": given.get("phase", "Bound" if "volume" in given else "Pending")}
    return msgspec.convert({"metadata": metadata, "spec": spec, "status": status}, records.PersistentVolumeClaim)


def promise(cache: Cache, binds: Binds) -> None:
    """Let later sessions see what is written, as the service does."""
    for write in (write for each in binds.preparations.values() for preparation in each for write in preparation.writes):
        if write.record is not None:
            cache.objects.promise(write.record, str(write.key), write.patch)


def writes(commits: Iterable[Commit]) -> dict[str, str]:
    """What is written, in short: which volume is kept for which claim, which claim is tied to which node."""
    found: dict[str, str] = {}
    for commit in commits:
        for preparations in (each for binds in commit.binds for each in binds.preparations.values()):
            for write in (write for preparation in preparations for write in preparation.writes):
                if write.record is records.PersistentVolume:
                    found[write.key.name] = write.patch["spec"]["claimRef"]["name"]
                elif write.record is records.ResourceClaim and "allocation" in write.patch.get("status", {}):
                    results = write.patch["status"]["allocation"]["devices"]["results"]
                    found[write.key.name] = ", ".join(f"{each['pool']}/{each['device']}" for each in results)
                elif write.record is records.PersistentVolumeClaim:
                    found[write.key.name] = write.patch["metadata"]["annotations"]["volume.kubernetes.io/selected-node"]
    return found
