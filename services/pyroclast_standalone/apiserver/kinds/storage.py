"""Claims, the volumes that they are bound to, and storage classes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from pyroclast.resources import quantity
from pyroclast.rules.podspecs.claims import check_claim_spec
from pyroclast_standalone.apiserver.documents.errors import FieldError, forbidden, invalid, required
from pyroclast_standalone.apiserver.documents.tables import Column

from .pod_defaults import default_claim_spec
from .rules import AGE, NAME, Rules, age_of

__all__ = ["CLAIM_PROTECTION", "PERSISTENT_VOLUME", "PERSISTENT_VOLUME_CLAIM", "STORAGE_CLASS", "VOLUME_PROTECTION"]

_CORE: Final = "io.k8s.api.core.v1."
_STORAGE: Final = "io.k8s.api.storage.v1."
CLAIM_PROTECTION: Final = "kubernetes.io/pvc-protection"
VOLUME_PROTECTION: Final = "kubernetes.io/pv-protection"
_SHORT_MODES: Final = {"ReadWriteOnce": "RWO", "ReadOnlyMany": "ROX", "ReadWriteMany": "RWX", "ReadWriteOncePod": "RWOP"}
_IMMUTABLE: Final = "spec is immutable after creation except resources.requests and volumeAttributesClassName for bound claims"


def _modes(modes: list[str] | None) -> str:
    """Access modes by their short names."""
    return ",".join(short for mode, short in _SHORT_MODES.items() if mode in (modes or ()))


def _protect(document: dict[str, Any], finalizer: str) -> None:
    metadata = document["metadata"]
    finalizers = metadata.get("finalizers") or []
    if finalizer not in finalizers:
        metadata["finalizers"] = [*finalizers, finalizer]


def _phase(document: Mapping[str, Any]) -> str:
    return "Terminating" if document["metadata"].get("deletionTimestamp") else (document.get("status") or {}).get("phase", "")


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
    """The spec without what may change."""
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


def _claim_cells(document: Mapping[str, Any], now: float) -> list[Any]:
    spec, status = document["spec"], document.get("status") or {}
    volume = spec.get("volumeName", "")
    return [
        document["metadata"]["name"],
        _phase(document),
        volume,
        (status.get("capacity") or {}).get("storage", "0") if volume else "",
        _modes(status.get("accessModes")) if volume else "",
        spec.get("storageClassName") or "",
        spec.get("volumeAttributesClassName") or "<unset>",
        age_of(document, now),
        spec.get("volumeMode") or "<unset>",
    ]


PERSISTENT_VOLUME_CLAIM: Final = Rules(
    default=_default_claim,
    check=_check_claim,
    check_update=_update_claim,
    prepare=_prepare_claim,
    columns=(
        NAME,
        Column("Status", doc=f"{_CORE}PersistentVolumeClaimStatus.phase"),
        Column("Volume", doc=f"{_CORE}PersistentVolumeClaimSpec.volumeName"),
        Column("Capacity", doc=f"{_CORE}PersistentVolumeClaimStatus.capacity"),
        Column("Access Modes", doc=f"{_CORE}PersistentVolumeClaimStatus.accessModes"),
        Column("StorageClass", description="The class that provides it."),
        Column("VolumeAttributesClass", description="The class of its attributes."),
        AGE,
        Column("VolumeMode", priority=1, doc=f"{_CORE}PersistentVolumeClaimSpec.volumeMode"),
    ),
    cells=_claim_cells,
)


def _default_volume(document: dict[str, Any]) -> None:
    spec = document["spec"]
    spec.setdefault("persistentVolumeReclaimPolicy", "Retain")
    spec.setdefault("volumeMode", "Filesystem")
    if "hostPath" in spec:
        spec["hostPath"].setdefault("type", "")
    document["status"].setdefault("phase", "Pending")


def _prepare_volume(document: dict[str, Any]) -> None:
    document["status"] = {"phase": "Pending", "lastPhaseTransitionTime": document["metadata"].get("creationTimestamp")}
    _protect(document, VOLUME_PROTECTION)


def _check_volume(document: dict[str, Any]) -> list[FieldError]:
    spec = document["spec"]
    errors = [required(f"spec.{field}") for field in ("accessModes", "capacity") if not spec.get(field)]
    own = "spec.capacity[storage]"
    size = quantity.parse((spec.get("capacity") or {}).get("storage", "1"))
    return errors if size > quantity.parse("0") else [*errors, invalid(own, str(size), "must be greater than zero")]


def _volume_cells(document: Mapping[str, Any], now: float) -> list[Any]:
    spec, status = document["spec"], document.get("status") or {}
    claim = spec.get("claimRef")
    return [
        document["metadata"]["name"],
        (spec.get("capacity") or {}).get("storage", "0"),
        _modes(spec.get("accessModes")),
        spec.get("persistentVolumeReclaimPolicy", ""),
        _phase(document),
        f"{claim.get('namespace', '')}/{claim.get('name', '')}" if claim else "",
        spec.get("storageClassName") or "",
        spec.get("volumeAttributesClassName") or "<unset>",
        status.get("reason", ""),
        age_of(document, now),
        spec.get("volumeMode") or "<unset>",
    ]


PERSISTENT_VOLUME: Final = Rules(
    default=_default_volume,
    check=_check_volume,
    check_update=lambda new, _old: _check_volume(new),
    prepare=_prepare_volume,
    columns=(
        NAME,
        Column("Capacity", doc=f"{_CORE}PersistentVolumeSpec.capacity"),
        Column("Access Modes", doc=f"{_CORE}PersistentVolumeSpec.accessModes"),
        Column("Reclaim Policy", doc=f"{_CORE}PersistentVolumeSpec.persistentVolumeReclaimPolicy"),
        Column("Status", doc=f"{_CORE}PersistentVolumeStatus.phase"),
        Column("Claim", doc=f"{_CORE}PersistentVolumeSpec.claimRef"),
        Column("StorageClass", description="The class that provides it."),
        Column("VolumeAttributesClass", description="The class of its attributes."),
        Column("Reason", doc=f"{_CORE}PersistentVolumeStatus.reason"),
        AGE,
        Column("VolumeMode", priority=1, doc=f"{_CORE}PersistentVolumeSpec.volumeMode"),
    ),
    cells=_volume_cells,
)


def _default_class(document: dict[str, Any]) -> None:
    document.setdefault("reclaimPolicy", "Delete")
    document.setdefault("volumeBindingMode", "Immediate")


def _class_cells(document: Mapping[str, Any], now: float) -> list[Any]:
    annotations = document["metadata"].get("annotations") or {}
    is_default = annotations.get("storageclass.kubernetes.io/is-default-class") == "true"
    return [
        document["metadata"]["name"] + (" (default)" if is_default else ""),
        document.get("provisioner", ""),
        document.get("reclaimPolicy", "Delete"),
        document.get("volumeBindingMode", "Immediate"),
        bool(document.get("allowVolumeExpansion")),
        age_of(document, now),
    ]


STORAGE_CLASS: Final = Rules(
    default=_default_class,
    columns=(
        NAME,
        *(
            Column(field[:1].upper() + field[1:], doc=f"{_STORAGE}StorageClass.{field}")
            for field in ("provisioner", "reclaimPolicy", "volumeBindingMode", "allowVolumeExpansion")
        ),
        AGE,
    ),
    cells=_class_cells,
)
