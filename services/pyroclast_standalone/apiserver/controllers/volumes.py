"""Chooses the volume of a claim, and decides about a released volume, as Kubernetes' volume controller does. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final

from pyroclast.resources import quantity
from pyroclast_standalone.apiserver.documents.selectors import from_label_selector

PROVISIONER: Final = "standalone.pyroclast.io/volume"
"""The provisioner name of storage classes whose volumes this server creates."""
_BY_CONTROLLER: Final = "pv.kubernetes.io/bound-by-controller"
_COMPLETED: Final = "pv.kubernetes.io/bind-completed"
_PROVISIONED: Final = "pv.kubernetes.io/provisioned-by"


def _size(resources: Mapping[str, Any]) -> quantity.Quantity:
    return quantity.parse(resources.get("storage", "0"))


def _asked(claim: Mapping[str, Any]) -> Mapping[str, Any]:
    found: Mapping[str, Any] = (claim["spec"].get("resources") or {}).get("requests") or {}
    return found


def claims_of(pod: Mapping[str, Any]) -> set[str]:
    """Return the names of the claims that a pod uses."""
    own = (volume.get("persistentVolumeClaim") for volume in pod["spec"].get("volumes") or ())
    return {claim.get("claimName", "") for claim in own if claim}


def _fits(claim: Mapping[str, Any], volume: Mapping[str, Any]) -> bool:
    wish, spec, metadata = claim["spec"], volume["spec"], claim["metadata"]
    reference = spec.get("claimRef")
    if reference is not None:
        own = (metadata["namespace"], metadata["name"])
        if (reference.get("namespace"), reference.get("name")) != own or reference.get("uid") not in {None, metadata["uid"]}:
            return False
    if reference is None and not from_label_selector(wish.get("selector")).selects(volume):
        return False
    return (
        (wish.get("storageClassName") or "") == (spec.get("storageClassName") or "")
        and set(wish.get("accessModes") or ()) <= set(spec.get("accessModes") or ())
        and (wish.get("volumeMode") or "Filesystem") == (spec.get("volumeMode") or "Filesystem")
        and _size(_asked(claim)) <= _size(spec.get("capacity") or {})
    )


def best_of(claim: Mapping[str, Any], known: Iterable[dict[str, Any]]) -> dict[str, Any] | None:
    """Return the volume in `known` that is reserved for the claim, otherwise the smallest that fits. None when none fits."""
    fitting = [
        each for each in known if (each.get("status") or {}).get("phase") in {"Available", "Pending"} and _fits(claim, each)
    ]
    return min(
        fitting,
        key=lambda each: ("claimRef" not in each["spec"], _size(each["spec"].get("capacity") or {}), each["metadata"]["name"]),
        default=None,
    )


def provided_by(claim: Mapping[str, Any], chosen: Mapping[str, Any] | None, *, is_used: bool) -> dict[str, Any] | str:
    """Return the volume that a storage class provides for the claim, or the reason for an event as `reason: message`."""
    name = claim["spec"].get("storageClassName") or ""
    if chosen is None:
        if name:
            return f'ProvisioningFailed: storageclass.storage.k8s.io "{name}" not found'
        return "FailedBinding: no persistent volumes available for this claim and no storage class is set"
    if chosen.get("volumeBindingMode") == "WaitForFirstConsumer" and not is_used:
        return "WaitForFirstConsumer: waiting for first consumer to be created before binding"
    provisioner = chosen.get("provisioner", "")
    if provisioner != PROVISIONER:
        return f"ExternalProvisioning: nothing here makes volumes for the provisioner {provisioner!r}; {PROVISIONER!r} is served"
    volume = f"pvc-{claim['metadata']['uid']}"
    return {
        "metadata": {"name": volume, "annotations": {_PROVISIONED: PROVISIONER}, "finalizers": ["kubernetes.io/pv-protection"]},
        "spec": {
            "capacity": {"storage": _asked(claim).get("storage", "0")},
            "accessModes": list(claim["spec"].get("accessModes") or ()),
            "persistentVolumeReclaimPolicy": chosen.get("reclaimPolicy", "Delete"),
            "storageClassName": name,
            "volumeMode": claim["spec"].get("volumeMode", "Filesystem"),
            "hostPath": {"path": f"/var/lib/pyroclast/volumes/{volume}", "type": "DirectoryOrCreate"},
        },
        "status": {},
    }


def bind(claim: dict[str, Any], volume: dict[str, Any]) -> None:
    """Bind the claim and the volume to each other, in place."""
    metadata, spec = claim["metadata"], volume["spec"]
    if "claimRef" not in spec:
        volume["metadata"].setdefault("annotations", {})[_BY_CONTROLLER] = "yes"
    reference = {"kind": "PersistentVolumeClaim", "apiVersion": "v1"}
    reference |= {field: metadata[field] for field in ("namespace", "name", "uid", "resourceVersion") if field in metadata}
    spec["claimRef"] = reference
    volume.setdefault("status", {})["phase"] = "Bound"
    notes = metadata.setdefault("annotations", {})
    notes[_COMPLETED] = "yes"
    if not claim["spec"].get("volumeName"):
        notes[_BY_CONTROLLER] = "yes"
        claim["spec"]["volumeName"] = volume["metadata"]["name"]
    claim["status"] = {
        **(claim.get("status") or {}),
        "phase": "Bound",
        "accessModes": list(spec.get("accessModes") or ()),
        "capacity": dict(spec.get("capacity") or {}),
    }


def phase_of(volume: Mapping[str, Any], *, is_claimed: bool) -> str:
    """Return the phase of a volume: Available, Bound or Released. `Gone` means that it is deleted with its claim."""
    spec, phase = volume["spec"], (volume.get("status") or {}).get("phase", "")
    if not (spec.get("claimRef") or {}).get("uid"):
        return "Available"
    if is_claimed:
        return phase or "Bound"
    is_ours = (volume["metadata"].get("annotations") or {}).get(_PROVISIONED) == PROVISIONER
    return "Gone" if spec.get("persistentVolumeReclaimPolicy") == "Delete" and is_ours else "Released"
