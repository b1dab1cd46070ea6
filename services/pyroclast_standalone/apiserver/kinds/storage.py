"""PersistentVolumeClaims, PersistentVolumes and StorageClasses."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from pyroclast.resources import quantity
from pyroclast.rules.errors import FieldError, forbidden, invalid, required
from pyroclast.rules.podspecs.claims import check_claim_spec
from pyroclast_standalone.apiserver.kinds.checks import immutable, optional_choice
from pyroclast_standalone.apiserver.kinds.pod_defaults import default_claim_spec
from pyroclast_standalone.apiserver.kinds.rules import Rules

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
    default=_default_claim,
    check=_check_claim,
    check_update=_update_claim,
    prepare=_prepare_claim,
)


def _prepare_volume(document: dict[str, Any]) -> None:
    document["status"] = {"phase": "Pending", "lastPhaseTransitionTime": document["metadata"].get("creationTimestamp")}
    _protect(document, VOLUME_PROTECTION)


def _check_volume(document: dict[str, Any]) -> list[FieldError]:
    spec = document["spec"]
    errors = [required(f"spec.{field}") for field in ("accessModes", "capacity") if not spec.get(field)]
    own = "spec.capacity[storage]"
    size = quantity.parse((spec.get("capacity") or {}).get("storage", "1"))
    return errors if size > quantity.parse("0") else [*errors, invalid(own, str(size), "must be greater than zero")]


PERSISTENT_VOLUME: Final = Rules(check=_check_volume, prepare=_prepare_volume)


def _check_class(document: dict[str, Any]) -> list[FieldError]:
    return [
        *([] if document.get("provisioner") else [required("provisioner")]),
        *optional_choice(document, "reclaimPolicy", ("Delete", "Retain"), ""),
        *optional_choice(document, "volumeBindingMode", ("Immediate", "WaitForFirstConsumer"), ""),
    ]


def _update_class(new: dict[str, Any], old: dict[str, Any]) -> list[FieldError]:
    fixed = ("parameters", "provisioner", "reclaimPolicy", "volumeBindingMode")
    return [*_check_class(new), *(error for field in fixed for error in immutable(new, old, field, field))]


STORAGE_CLASS: Final = Rules(check=_check_class, check_update=_update_class)
