"""Volumes, claims and what provides them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from pyroclast.resources import quantity
from pyroclast_standalone.apiserver.documents import names
from pyroclast_standalone.apiserver.documents.errors import FieldError, duplicate, forbidden, invalid, required, unsupported
from pyroclast_standalone.apiserver.documents.tables import Column

from .checks import choice, immutable, named
from .claims import check_claim_spec, check_storage_name
from .diffs import diff
from .pod_defaults import default_claim_spec
from .rules import AGE, NAME, Rules, age_of
from .storage_cells import class_of, modes_text, protected
from .volume_warnings import warn_of_fractions

__all__ = [
    "PERSISTENT_VOLUME_CLAIM",
    "STORAGE_CLASS",
]

_CORE: Final = "io.k8s.api.core.v1."
_STORAGE: Final = "io.k8s.api.storage.v1."
_PROTECTION: Final = "kubernetes.io/pvc-protection"
_OLD_CLASS: Final = "volume.beta.kubernetes.io/storage-class"
_RESIZES: Final = (
    "ControllerResizeInProgress",
    "ControllerResizeInfeasible",
    "NodeResizeInProgress",
    "NodeResizeInfeasible",
    "NodeResizePending",
)
_IMMUTABLE: Final = "spec is immutable after creation except resources.requests and volumeAttributesClassName for bound claims"


def _default_claim(document: dict[str, Any]) -> None:
    default_claim_spec(document["spec"])
    document["status"].setdefault("phase", "Pending")


def _prepare_claim(document: dict[str, Any]) -> None:
    document["status"] = {"phase": "Pending"}
    _drop_foreign_source(document["spec"])
    _settle_sources(document["spec"])
    protected(_PROTECTION, document)


def _prepare_claim_update(new: dict[str, Any], old: Mapping[str, Any]) -> None:
    if not any("namespace" in (each.get("dataSourceRef") or {}) for each in (old["spec"],)):
        _drop_foreign_source(new["spec"])


def _drop_foreign_source(spec: dict[str, Any]) -> None:
    """Sources in other namespaces, and old sources of kinds that none of them is, are not taken."""
    if (spec.get("dataSourceRef") or {}).get("namespace"):
        del spec["dataSourceRef"]


def _settle_sources(spec: dict[str, Any]) -> None:
    """The old way and the new way to name the source of a claim tell the same."""
    source, reference = spec.get("dataSource"), spec.get("dataSourceRef")
    known = (("", "PersistentVolumeClaim"), ("snapshot.storage.k8s.io", "VolumeSnapshot"))
    if source is not None and reference is None and (source.get("apiGroup") or "", source.get("kind", "")) not in known:
        del spec["dataSource"]
    elif source is not None and reference is None:
        spec["dataSourceRef"] = dict(source)
    elif reference is not None and source is None:
        spec["dataSource"] = dict(reference)


def _check_claim(document: dict[str, Any]) -> list[FieldError]:
    return check_claim_spec(document["spec"], "spec")


def _size(document: Mapping[str, Any], *path: str) -> quantity.Quantity:
    found: Any = document
    for step in path:
        found = (found or {}).get(step)
    return quantity.parse((found or {}).get("storage", "0"))


def _compared(new: Mapping[str, Any], old: Mapping[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
    """Both specs, with what may change set to the same."""
    mine, theirs = dict(new["spec"]), dict(old["spec"])
    if not theirs.get("volumeName"):
        theirs.pop("volumeName", None)
        mine.pop("volumeName", None)
    if "storageClassName" not in theirs:
        marked = (old["metadata"].get("annotations") or {}).get(_OLD_CLASS)
        if marked is None or mine.get("storageClassName") == marked:
            mine.pop("storageClassName", None)
    if (new.get("status") or {}).get("phase") == "Bound":
        for each in (mine, theirs):
            each.pop("volumeAttributesClassName", None)
        requests = {**((mine.get("resources") or {}).get("requests") or {})}
        before = (theirs.get("resources") or {}).get("requests") or {}
        if requests and "storage" in before:
            mine["resources"] = {**mine["resources"], "requests": {**requests, "storage": before["storage"]}}
    return mine, theirs


def _update_claim(new: dict[str, Any], old: dict[str, Any]) -> list[FieldError]:
    errors = _check_claim(new)
    mine, theirs = _compared(new, old)
    if mine != theirs:
        errors.append(forbidden("spec", f"{_IMMUTABLE}\n{diff(theirs, mine)}"))
    size = _size(new, "spec", "resources", "requests")
    if size < _size(old, "spec", "resources", "requests") and size <= _size(old, "status", "capacity"):
        errors.append(forbidden("spec.resources.requests.storage", "field can not be less than status.capacity"))
    if new["spec"].get("volumeMode") != old["spec"].get("volumeMode"):
        errors.append(invalid("volumeMode", new["spec"].get("volumeMode"), "field is immutable"))
    return errors


def _check_claim_status(new: dict[str, Any], _old: dict[str, Any]) -> list[FieldError]:
    status = new.get("status") or {}
    errors = [
        invalid(f"status.capacity[{name}]", quantity.parse(amount).value, "must be a valid resource quantity")
        for name, amount in (status.get("capacity") or {}).items()
        if quantity.parse(amount) < quantity.parse("0")
    ]
    own = "status.allocatedResourceStatuses"
    for name, state in (status.get("allocatedResourceStatuses") or {}).items():
        errors += check_storage_name(name, own)
        if state not in _RESIZES:
            errors.append(unsupported(own, name, _RESIZES))
    own = "status.allocatedResources"
    for name, amount in (status.get("allocatedResources") or {}).items():
        wrong = check_storage_name(name, own)
        if not wrong and quantity.parse(amount) < quantity.parse("0"):
            wrong = [invalid(f"{own}[{name}]", quantity.parse(amount).value, "must be a valid resource quantity")]
        errors += wrong
    return errors


def _warn_of_claim(document: Mapping[str, Any], _old: Mapping[str, Any] | None) -> list[str]:
    told = []
    if _OLD_CLASS in (document["metadata"].get("annotations") or {}):
        told.append(f'metadata.annotations[{_OLD_CLASS}]: deprecated since v1.8; use "storageClassName" attribute instead')
    resources = document["spec"].get("resources") or {}
    for kind in ("requests", "limits"):
        told += warn_of_fractions(resources.get(kind), ("storage",), f"spec.resources.{kind}")
    return told


def _claim_cells(document: Mapping[str, Any], now: float) -> list[Any]:
    spec, status = document["spec"], document.get("status") or {}
    volume = spec.get("volumeName", "")
    phase = "Terminating" if document["metadata"].get("deletionTimestamp") else status.get("phase", "")
    return [
        document["metadata"]["name"],
        phase,
        volume,
        (status.get("capacity") or {}).get("storage", "0") if volume else "",
        modes_text(status.get("accessModes")) if volume else "",
        class_of(document),
        spec.get("volumeAttributesClassName") or "<unset>",
        age_of(document, now),
        spec.get("volumeMode") or "<unset>",
    ]


PERSISTENT_VOLUME_CLAIM: Final = Rules(
    metadata_checks=4,
    default=_default_claim,
    check=_check_claim,
    check_update=_update_claim,
    check_status=_check_claim_status,
    prepare=_prepare_claim,
    prepare_update=_prepare_claim_update,
    warnings=_warn_of_claim,
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


def _default_class(document: dict[str, Any]) -> None:
    document.setdefault("reclaimPolicy", "Delete")
    document.setdefault("volumeBindingMode", "Immediate")


def _check_class(document: dict[str, Any]) -> list[FieldError]:
    provisioner = document.get("provisioner", "")
    lowered = provisioner.lower()
    errors = named(lowered, names.label_key, "provisioner") if provisioner else [required("provisioner")]
    if "" in (document.get("parameters") or {}):
        errors.append(invalid("parameters", "", "field can not be empty."))
    errors += choice(document, "reclaimPolicy", ("Delete", "Retain"), "")
    errors += choice(document, "volumeBindingMode", ("Immediate", "WaitForFirstConsumer"), "")
    return [*errors, *_check_topologies(document.get("allowedTopologies") or ())]


def _check_topologies(terms: Sequence[Mapping[str, Any]]) -> list[FieldError]:
    errors: list[FieldError] = []
    seen: list[dict[str, set[str]]] = []
    for index, term in enumerate(terms):
        own = f"allowedTopologies[{index}].matchLabelExpressions"
        found: dict[str, set[str]] = {}
        for at, expression in enumerate(term.get("matchLabelExpressions") or ()):
            key, values = expression.get("key", ""), expression.get("values") or []
            if not values:
                errors.append(required(f"{own}[{at}].values"))
            errors += [duplicate(f"{own}[{at}].values[{n}]", value) for n, value in enumerate(values) if value in values[:n]]
            errors += named(key, names.label_key, f"{own}[{at}].key")
            if key in found:
                errors.append(duplicate(f"{own}[{at}].key", key))
            found[key] = set(values)
        if found in seen:
            errors.append(duplicate(own, ""))
        seen.append(found)
    return errors


def _update_class(new: dict[str, Any], old: dict[str, Any]) -> list[FieldError]:
    fixed = ("parameters", "provisioner", "reclaimPolicy", "volumeBindingMode")
    return [*_check_class(new), *(error for field in fixed for error in immutable(new, old, field, field))]


def _class_cells(document: Mapping[str, Any], now: float) -> list[Any]:
    annotations = document["metadata"].get("annotations") or {}
    is_default = "true" in {
        annotations.get("storageclass.kubernetes.io/is-default-class"),
        annotations.get("storageclass.beta.kubernetes.io/is-default-class"),
    }
    return [
        document["metadata"]["name"] + (" (default)" if is_default else ""),
        document.get("provisioner", ""),
        document.get("reclaimPolicy", "Delete"),
        document.get("volumeBindingMode", "Immediate"),
        bool(document.get("allowVolumeExpansion")),
        age_of(document, now),
    ]


STORAGE_CLASS: Final = Rules(
    metadata_checks=4,
    default=_default_class,
    check=_check_class,
    check_update=_update_class,
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
