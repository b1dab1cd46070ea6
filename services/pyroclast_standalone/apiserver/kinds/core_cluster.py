"""Nodes, namespaces, and storage: PersistentVolumeClaims, PersistentVolumes and StorageClasses."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from pyroclast.rules import names
from pyroclast.rules.errors import FieldError, forbidden, invalid
from pyroclast.rules.podspecs.disks import check_claim_spec
from pyroclast_standalone.apiserver.documents.metadata import check_finalizer_names
from pyroclast_standalone.apiserver.documents.selectors import read_field
from pyroclast_standalone.apiserver.kinds.pod_defaults import default_claim_spec
from pyroclast_standalone.apiserver.kinds.rules import FieldPart, Rules, age_of, immutable

CLAIM_PROTECTION: Final = "kubernetes.io/pvc-protection"
VOLUME_PROTECTION: Final = "kubernetes.io/pv-protection"
_IMMUTABLE: Final = "spec is immutable after creation except resources.requests and volumeAttributesClassName for bound claims"


def _protect(document: dict[str, Any], finalizer: str) -> None:
    metadata = document["metadata"]
    finalizers = metadata.get("finalizers") or []
    if finalizer not in finalizers:
        metadata["finalizers"] = [*finalizers, finalizer]


def _default_claim(document: dict[str, Any]) -> None:
    default_claim_spec(document["spec"])
    document["status"].setdefault("phase", "Pending")


def _prepare_claim(document: dict[str, Any]) -> None:
    document["status"] = {"phase": "Pending"}
    _protect(document, CLAIM_PROTECTION)


def _check_claim(document: dict[str, Any]) -> list[FieldError]:
    errors: list[FieldError] = []
    check_claim_spec(document["spec"], "spec", errors)
    return errors


def _fixed(claim: Mapping[str, Any]) -> dict[str, Any]:
    """Return the spec without its changeable fields."""
    kept = {name: value for name, value in claim["spec"].items() if name not in {"resources", "volumeAttributesClassName"}}
    return kept | {"resources": {"limits": (claim["spec"].get("resources") or {}).get("limits")}}


def _update_claim(new: dict[str, Any], old: dict[str, Any]) -> list[FieldError]:
    mine, theirs = _fixed(new), _fixed(old)
    for field in ("volumeName", "storageClassName"):
        if not theirs.get(field):
            mine.pop(field, None)
            theirs.pop(field, None)
    is_bound = (new.get("status") or {}).get("phase") == "Bound"
    if mine == theirs and (is_bound or new["spec"].get("resources") == old["spec"].get("resources")):
        return _check_claim(new)
    return [*_check_claim(new), forbidden("spec", _IMMUTABLE)]


PERSISTENT_VOLUME_CLAIM: Final = Rules(
    default=_default_claim, check=_check_claim, check_update=_update_claim, prepare=_prepare_claim
)


def _prepare_volume(document: dict[str, Any]) -> None:
    document["status"] = {"phase": "Pending", "lastPhaseTransitionTime": document["metadata"].get("creationTimestamp")}
    _protect(document, VOLUME_PROTECTION)


PERSISTENT_VOLUME: Final = Rules(prepare=_prepare_volume)


def _update_class(new: dict[str, Any], old: dict[str, Any]) -> list[FieldError]:
    fixed = ("parameters", "provisioner", "reclaimPolicy", "volumeBindingMode")
    return [error for field in fixed for error in immutable(new, old, field, field)]


STORAGE_CLASS: Final = Rules(check_update=_update_class)


_NO_FINALIZER: Final = "name is neither a standard finalizer name nor is it fully qualified"


def _default_node(document: dict[str, Any]) -> None:
    status = document["status"]
    if "allocatable" not in status and status.get("capacity"):
        status["allocatable"] = dict(status["capacity"])


def _addresses(status: Mapping[str, Any], kind: str) -> str:
    return next((each["address"] for each in status.get("addresses") or () if each.get("type") == kind), "<none>")


def _roles(labels: Mapping[str, str]) -> str:
    prefix = "node-role.kubernetes.io/"
    roles = {key.removeprefix(prefix) for key in labels if key.startswith(prefix)}
    if own := labels.get("kubernetes.io/role"):
        roles.add(own)
    return ",".join(sorted(role for role in roles if role)) or "<none>"


def _node_cells(document: Mapping[str, Any], now: float) -> list[Any]:
    spec, status = document.get("spec") or {}, document.get("status") or {}
    ready = next((each.get("status") for each in status.get("conditions") or () if each.get("type") == "Ready"), None)
    state = "Unknown" if ready is None else "Ready" if ready == "True" else "NotReady"
    if spec.get("unschedulable"):
        state += ",SchedulingDisabled"
    info = status.get("nodeInfo") or {}
    kernel = info.get("kernelVersion") or "<unknown>"
    if info.get("architecture"):
        kernel += f" ({info['architecture']})"
    return [
        document["metadata"]["name"],
        state,
        _roles(document["metadata"].get("labels") or {}),
        age_of(document, now),
        info.get("kubeletVersion", ""),
        _addresses(status, "InternalIP"),
        _addresses(status, "ExternalIP"),
        info.get("osImage") or "<unknown>",
        kernel,
        info.get("containerRuntimeVersion") or "<unknown>",
    ]


def _unschedulable(document: Mapping[str, Any]) -> str:
    return "true" if (document.get("spec") or {}).get("unschedulable") else "false"


NODE: Final = Rules(default=_default_node, keeps_status=True, fields={"spec.unschedulable": _unschedulable}, cells=_node_cells)


def _default_namespace(document: dict[str, Any]) -> None:
    document["status"].setdefault("phase", "Active")
    metadata = document["metadata"]
    if name := metadata.get("name"):
        labels = metadata.get("labels")
        if labels is None:
            labels = metadata["labels"] = {}
        labels["kubernetes.io/metadata.name"] = name


def _prepare_namespace(document: dict[str, Any]) -> None:
    document["status"] = {"phase": "Active"}
    finalizers = document["spec"].get("finalizers") or []
    if "kubernetes" not in finalizers:
        document["spec"]["finalizers"] = [*finalizers, "kubernetes"]


def _prepare_namespace_update(new: dict[str, Any], old: Mapping[str, Any]) -> None:
    new["spec"]["finalizers"] = old["spec"].get("finalizers") or []
    if not new["spec"]["finalizers"]:
        del new["spec"]["finalizers"]


def _keep_all_but_finalizers(new: dict[str, Any], old: Mapping[str, Any]) -> None:
    if "status" in old:
        new["status"] = old["status"]


def _check_namespace_finalizers(new: dict[str, Any], _old: dict[str, Any]) -> list[FieldError]:
    return check_finalizer_names(new["spec"], "spec.finalizers")


def _check_namespace(document: dict[str, Any]) -> list[FieldError]:
    return [
        invalid("spec.finalizers", name, text)
        for name in document["spec"].get("finalizers") or ()
        for text in (names.qualified_name(name) or (() if "/" in name or name == "kubernetes" else (_NO_FINALIZER,)))
    ]


NAMESPACE: Final = Rules(
    check=_check_namespace,
    check_update=lambda _new, _old: [],  # the finalizers cannot change
    name=names.dns_label,
    default=_default_namespace,
    prepare=_prepare_namespace,
    prepare_update=_prepare_namespace_update,
    parts={"finalize": FieldPart(_keep_all_but_finalizers, _check_namespace_finalizers, reaches_metadata=True)},
    fields={"status.phase": read_field("status.phase")},
)
