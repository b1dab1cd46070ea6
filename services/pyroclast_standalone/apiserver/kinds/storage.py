"""Volumes, claims and what provides them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from pyroclast.resources import quantity
from pyroclast_standalone.apiserver.documents.errors import FieldError, forbidden, invalid, required, unsupported
from pyroclast_standalone.apiserver.documents.tables import Column

from .checks import immutable, optional_choice
from .diffs import diff
from .label_selectors import check_selector
from .pod_defaults import default_claim_spec
from .rules import AGE, NAME, Rules, age_of

__all__ = [
    "CSI_DRIVER",
    "CSI_NODE",
    "PERSISTENT_VOLUME",
    "PERSISTENT_VOLUME_CLAIM",
    "STORAGE_CLASS",
    "VOLUME_ATTACHMENT",
]

_CORE: Final = "io.k8s.api.core.v1."
_STORAGE: Final = "io.k8s.api.storage.v1."
_MODES: Final = ("ReadOnlyMany", "ReadWriteMany", "ReadWriteOnce", "ReadWriteOncePod")
_SHORT_MODES: Final = {"ReadWriteOnce": "RWO", "ReadOnlyMany": "ROX", "ReadWriteMany": "RWX", "ReadWriteOncePod": "RWOP"}
_PROTECTION: Final = "kubernetes.io/pvc-protection"
_VOLUME_PROTECTION: Final = "kubernetes.io/pv-protection"
_IMMUTABLE: Final = "spec is immutable after creation except resources.requests and volumeAttributesClassName for bound claims"


def _modes_text(modes: list[str] | None) -> str:
    return ",".join(short for mode, short in _SHORT_MODES.items() if mode in (modes or ()))


def _protected(finalizer: str, document: dict[str, Any]) -> None:
    metadata = document["metadata"]
    finalizers = metadata.get("finalizers") or []
    if finalizer not in finalizers:
        metadata["finalizers"] = [*finalizers, finalizer]


def _default_claim(document: dict[str, Any]) -> None:
    default_claim_spec(document["spec"])
    document["status"].setdefault("phase", "Pending")


def _prepare_claim(document: dict[str, Any]) -> None:
    document["status"] = {"phase": "Pending"}
    _protected(_PROTECTION, document)


def _check_claim(document: dict[str, Any]) -> list[FieldError]:
    spec = document["spec"]
    modes = spec.get("accessModes") or []
    errors: list[FieldError] = []
    if not modes:
        errors.append(required("spec.accessModes", "at least 1 access mode is required"))
    if selector := spec.get("selector"):
        errors += check_selector(selector, "spec.selector")
    errors += [unsupported("spec.accessModes", mode, _MODES) for mode in modes if mode not in _MODES]
    if "ReadWriteOncePod" in modes and len(set(modes)) > 1:
        errors.append(forbidden("spec.accessModes", "may not use ReadWriteOncePod with other access modes"))
    size = ((spec.get("resources") or {}).get("requests") or {}).get("storage")
    if size is None:
        errors.append(required("spec.resources[storage]"))
    elif quantity.parse(size) <= quantity.parse("0"):
        errors.append(invalid("spec.resources[storage]", size, "must be greater than zero"))
    return [*errors, *optional_choice(spec, "volumeMode", ("Block", "Filesystem"), "spec")]


def _update_claim(new: dict[str, Any], old: dict[str, Any]) -> list[FieldError]:
    errors = _check_claim(new)
    bound = (old.get("status") or {}).get("phase") == "Bound"
    free = {"volumeName"} if not old["spec"].get("volumeName") else set()
    if bound:
        free |= {"resources", "volumeAttributesClassName"}
    mine = {key: value for key, value in new["spec"].items() if key not in free}
    theirs = {key: value for key, value in old["spec"].items() if key not in free}
    if mine != theirs:
        errors.append(forbidden("spec", f"{_IMMUTABLE}\n{diff(theirs, mine)}"))
    return errors


def _class_of(document: Mapping[str, Any]) -> str:
    annotations = document["metadata"].get("annotations") or {}
    return str(annotations.get("volume.beta.kubernetes.io/storage-class") or document["spec"].get("storageClassName") or "")


def _claim_cells(document: Mapping[str, Any], now: float) -> list[Any]:
    spec, status = document["spec"], document.get("status") or {}
    volume = spec.get("volumeName", "")
    phase = "Terminating" if document["metadata"].get("deletionTimestamp") else status.get("phase", "")
    return [
        document["metadata"]["name"],
        phase,
        volume,
        (status.get("capacity") or {}).get("storage", "0") if volume else "",
        _modes_text(status.get("accessModes")) if volume else "",
        _class_of(document),
        spec.get("volumeAttributesClassName") or "<unset>",
        age_of(document, now),
        spec.get("volumeMode") or "<unset>",
    ]


PERSISTENT_VOLUME_CLAIM: Final = Rules(
    metadata_checks=4,
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
    _protected(_VOLUME_PROTECTION, document)


def _check_volume(document: dict[str, Any]) -> list[FieldError]:
    spec = document["spec"]
    errors: list[FieldError] = []
    if not spec.get("accessModes"):
        errors.append(required("spec.accessModes"))
    if not spec.get("capacity"):
        errors.append(required("spec.capacity"))
    elif "storage" not in spec["capacity"]:
        errors.append(unsupported("spec.capacity", spec["capacity"], ["storage"]))
    return errors


def _volume_cells(document: Mapping[str, Any], now: float) -> list[Any]:
    spec, status = document["spec"], document.get("status") or {}
    claim = spec.get("claimRef")
    return [
        document["metadata"]["name"],
        (spec.get("capacity") or {}).get("storage", "0"),
        _modes_text(spec.get("accessModes")),
        spec.get("persistentVolumeReclaimPolicy", ""),
        "Terminating" if document["metadata"].get("deletionTimestamp") else status.get("phase", ""),
        f"{claim.get('namespace', '')}/{claim.get('name', '')}" if claim else "",
        _class_of(document),
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


def _check_class(document: dict[str, Any]) -> list[FieldError]:
    errors = [] if document.get("provisioner") else [required("provisioner")]
    return [*errors, *optional_choice(document, "reclaimPolicy", ("Delete", "Retain"), "")]


def _update_class(new: dict[str, Any], old: dict[str, Any]) -> list[FieldError]:
    errors = [
        forbidden(field, f"updates to {field} are forbidden.")
        for field in ("parameters", "provisioner", "reclaimPolicy")
        if new.get(field) != old.get(field)
    ]
    return [*errors, *immutable(new, old, "volumeBindingMode", "volumeBindingMode")]


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


def _default_driver(document: dict[str, Any]) -> None:
    spec = document["spec"]
    spec.setdefault("attachRequired", True)
    for field in ("podInfoOnMount", "storageCapacity", "requiresRepublish", "seLinuxMount"):
        spec.setdefault(field, False)
    spec.setdefault("fsGroupPolicy", "ReadWriteOnceWithFSType")
    spec.setdefault("volumeLifecycleModes", ["Persistent"])


def _driver_cells(document: Mapping[str, Any], now: float) -> list[Any]:
    spec = document["spec"]
    tokens = spec.get("tokenRequests")
    return [
        document["metadata"]["name"],
        spec.get("attachRequired", True),
        bool(spec.get("podInfoOnMount")),
        bool(spec.get("storageCapacity")),
        "<unset>" if tokens is None else ",".join(each.get("audience", "") for each in tokens),
        bool(spec.get("requiresRepublish")),
        ",".join(spec.get("volumeLifecycleModes") or ()) or "<none>",
        age_of(document, now),
    ]


CSI_DRIVER: Final = Rules(
    default=_default_driver,
    columns=(
        NAME,
        Column("AttachRequired", type="boolean", doc=f"{_STORAGE}CSIDriverSpec.attachRequired"),
        Column("PodInfoOnMount", type="boolean", doc=f"{_STORAGE}CSIDriverSpec.podInfoOnMount"),
        Column("StorageCapacity", type="boolean", doc=f"{_STORAGE}CSIDriverSpec.storageCapacity"),
        Column("TokenRequests", doc=f"{_STORAGE}CSIDriverSpec.tokenRequests"),
        Column("RequiresRepublish", type="boolean", doc=f"{_STORAGE}CSIDriverSpec.requiresRepublish"),
        Column("Modes", doc=f"{_STORAGE}CSIDriverSpec.volumeLifecycleModes"),
        AGE,
    ),
    cells=_driver_cells,
)


def _node_cells(document: Mapping[str, Any], now: float) -> list[Any]:
    return [document["metadata"]["name"], len(document["spec"].get("drivers") or ()), age_of(document, now)]


CSI_NODE: Final = Rules(
    columns=(NAME, Column("Drivers", type="integer", description="How many drivers the node has."), AGE), cells=_node_cells
)


def _attachment_cells(document: Mapping[str, Any], now: float) -> list[Any]:
    spec = document["spec"]
    return [
        document["metadata"]["name"],
        spec.get("attacher", ""),
        (spec.get("source") or {}).get("persistentVolumeName", ""),
        spec.get("nodeName", ""),
        bool((document.get("status") or {}).get("attached")),
        age_of(document, now),
    ]


VOLUME_ATTACHMENT: Final = Rules(
    columns=(
        NAME,
        Column("Attacher", format="name", doc=f"{_STORAGE}VolumeAttachmentSpec.attacher"),
        Column("PV", doc=f"{_STORAGE}VolumeAttachmentSource.persistentVolumeName"),
        Column("Node", doc=f"{_STORAGE}VolumeAttachmentSpec.nodeName"),
        Column("Attached", type="boolean", doc=f"{_STORAGE}VolumeAttachmentStatus.attached"),
        AGE,
    ),
    cells=_attachment_cells,
)
