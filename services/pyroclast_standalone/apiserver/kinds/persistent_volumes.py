"""PersistentVolumes: defaults, validation, warnings and rows."""

from __future__ import annotations

import posixpath
from collections.abc import Callable, Mapping
from typing import Any, Final

from pyroclast.resources import quantity
from pyroclast_standalone.apiserver.documents import names
from pyroclast_standalone.apiserver.documents.errors import FieldError, forbidden, invalid, required, unsupported
from pyroclast_standalone.apiserver.documents.tables import Column

from .checks import named, optional_choice
from .claims import check_modes
from .diffs import diff
from .paths import check_no_backsteps
from .placement import check_node_selector
from .pod_defaults import default_source
from .rules import AGE, NAME, Rules, age_of
from .storage_cells import class_of, modes_text, protected
from .volume_sources import SOURCES, check_csi_driver, check_secret_reference, needs

__all__ = ["PERSISTENT_VOLUME"]

_CORE: Final = "io.k8s.api.core.v1."
_PROTECTION: Final = "kubernetes.io/pv-protection"
_SECRETS: Final = ("controllerPublishSecretRef", "controllerExpandSecretRef", "nodePublishSecretRef", "nodeExpandSecretRef")
_MOUNT_OPTIONS: Final = "volume.beta.kubernetes.io/mount-options"
_OLD_ANNOTATIONS: Final = {
    "volume.beta.kubernetes.io/storage-class": 'deprecated since v1.8; use "storageClassName" attribute instead',
    _MOUNT_OPTIONS: 'deprecated since v1.31; use "mountOptions" attribute instead',
}
_MOUNTABLE: Final = {
    "gcePersistentDisk",
    "awsElasticBlockStore",
    "glusterfs",
    "nfs",
    "rbd",
    "quobyte",
    "iscsi",
    "cinder",
    "cephfs",
    "azureFile",
    "vsphereVolume",
    "azureDisk",
    "csi",
}
_GONE: Final = {
    "cephfs": "deprecated in v1.28, non-functional in v1.31+",
    "photonPersistentDisk": "deprecated in v1.11, non-functional in v1.16+",
    "scaleIO": "deprecated in v1.16, non-functional in v1.22+",
    "storageos": "deprecated in v1.22, non-functional in v1.25+",
    "glusterfs": "deprecated in v1.25, non-functional in v1.26+",
    "rbd": "deprecated in v1.28, non-functional in v1.31+",
}
_RECYCLE: Final = (
    "spec.persistentVolumeReclaimPolicy: The Recycle reclaim policy is deprecated. "
    "Instead, the recommended approach is to use dynamic provisioning."
)
_NO_NAMESPACE: Final = "if the endpointnamespace is set, it must be a valid namespace name"

Source = Mapping[str, Any]


def _default(document: dict[str, Any]) -> None:
    spec = document["spec"]
    spec.setdefault("persistentVolumeReclaimPolicy", "Retain")
    spec.setdefault("volumeMode", "Filesystem")
    for kind in _SOURCES:
        if kind in spec:
            default_source(kind, spec[kind])
    document["status"].setdefault("phase", "Pending")


def _prepare(document: dict[str, Any]) -> None:
    document["status"] = {"phase": "Pending", "lastPhaseTransitionTime": document["metadata"].get("creationTimestamp")}
    protected(_PROTECTION, document)


def _check_csi(source: Source, path: str) -> list[FieldError]:
    errors = [*check_csi_driver(source.get("driver", ""), f"{path}.driver"), *needs(source, path, "volumeHandle")]
    return [*errors, *(error for field in _SECRETS for error in check_secret_reference(source.get(field), f"{path}.{field}"))]


def _check_azure_file(source: Source, path: str) -> list[FieldError]:
    errors = needs(source, path, "secretName", "shareName")
    return [*errors, *([required(f"{path}.secretNamespace")] if source.get("secretNamespace") == "" else [])]


def _check_gluster(source: Source, path: str) -> list[FieldError]:
    errors, namespace = needs(source, path, "endpoints", "path"), source.get("endpointsNamespace")
    if namespace == "":
        errors.append(invalid(f"{path}.endpointsNamespace", namespace, _NO_NAMESPACE))
    return [*errors, *(named(namespace, names.dns_label, f"{path}.endpointsNamespace") if namespace else [])]


def _with_secret(kind: str) -> Callable[[Source, str], list[FieldError]]:
    """As in a pod, but that the secret may be in any namespace, which has to be told."""

    def check(source: Source, path: str) -> list[FieldError]:
        errors, secret = SOURCES[kind](source, path), source.get("secretRef")
        return [*errors, *([] if secret is None else needs(secret, f"{path}.secretRef", "namespace"))]

    return check


def _check_local(source: Source, path: str) -> list[FieldError]:
    where = source.get("path", "")
    return check_no_backsteps(where, f"{path}.path") if where else [required(f"{path}.path")]


_SOURCES: Final[Mapping[str, Callable[[Source, str], list[FieldError]]]] = {
    **{
        kind: SOURCES[kind]
        for kind in (
            "hostPath",
            "gcePersistentDisk",
            "awsElasticBlockStore",
        )
    },
    "glusterfs": _check_gluster,
    **{kind: SOURCES[kind] for kind in ("flocker", "nfs", "rbd", "quobyte", "cephfs", "iscsi")},
    "cinder": _with_secret("cinder"),
    **{kind: SOURCES[kind] for kind in ("fc", "flexVolume")},
    "azureFile": _check_azure_file,
    **{kind: SOURCES[kind] for kind in ("vsphereVolume", "photonPersistentDisk", "portworxVolume", "azureDisk", "scaleIO")},
    "local": _check_local,
    "storageos": _with_secret("storageos"),
    "csi": _check_csi,
}
_REPORTED_AS: Final = {"gcePersistentDisk": "persistentDisk"}


def _check_capacity(spec: Source) -> list[FieldError]:
    capacity = spec.get("capacity") or {}
    errors = [] if capacity else [required("spec.capacity")]
    if set(capacity) != {"storage"}:
        errors.append(unsupported("spec.capacity", dict(sorted(capacity.items())) or None, ["storage"]))
    for name, amount in capacity.items():
        value, own = quantity.parse(amount), f"spec.capacity[{name}]"
        if value < quantity.parse("0"):
            errors.append(invalid(own, value.value, "must be a valid resource quantity"))
        if value <= quantity.parse("0"):
            errors.append(invalid(own, amount, "must be greater than zero"))
    return errors


def _check_affinity(spec: Source) -> tuple[bool, list[FieldError]]:
    affinity = spec.get("nodeAffinity")
    if affinity is None:
        return False, []
    if affinity.get("required") is None:
        return False, [required("spec.nodeAffinity.required", "must specify required node constraints")]
    return True, check_node_selector(affinity["required"], "spec.nodeAffinity.required")


def _check_classes(spec: Source) -> list[FieldError]:
    errors: list[FieldError] = []
    if name := spec.get("storageClassName"):
        errors += named(name, names.dns_subdomain, "spec.storageClassName")
    errors += optional_choice(spec, "volumeMode", ("Block", "Filesystem"), "spec")
    name, own = spec.get("volumeAttributesClassName"), "spec.volumeAttributesClassName"
    if name is None:
        return errors
    errors += named(name, names.dns_subdomain, own) if name else [required(own, "an empty string is disallowed")]
    if "csi" not in spec:
        errors.append(required("spec.csi", "has to be specified when using volumeAttributesClassName"))
    return errors


def _check_mount_options(document: Source) -> list[FieldError]:
    options = (document["metadata"].get("annotations") or {}).get(_MOUNT_OPTIONS)
    if options is None or _MOUNTABLE & set(document["spec"]):
        return []
    return [forbidden(f"metadata.annotations.{_MOUNT_OPTIONS}", "may not specify mount options for this volume type")]


def _check(document: dict[str, Any]) -> list[FieldError]:
    spec = document["spec"]
    modes = spec.get("accessModes") or []
    errors = [] if modes else [required("spec.accessModes")]
    errors += [*check_modes(modes, "spec.accessModes"), *_check_capacity(spec)]
    errors += optional_choice(spec, "persistentVolumeReclaimPolicy", ("Delete", "Recycle", "Retain"), "spec")
    has_affinity, wrong = _check_affinity(spec)
    errors += wrong
    kinds = [kind for kind in _SOURCES if kind in spec]
    for kind in kinds[:1]:
        errors += _SOURCES[kind](spec[kind], f"spec.{_REPORTED_AS.get(kind, kind)}")
        if kind == "local" and not has_affinity:
            errors.append(required("spec.nodeAffinity", "Local volume requires node affinity"))
    errors += [forbidden(f"spec.{kind}", "may not specify more than 1 volume type") for kind in kinds[1:]]
    if not kinds:
        errors.append(required("spec", "must specify a volume type"))
    where = (spec.get("hostPath") or {}).get("path", "")
    if where and posixpath.normpath(where) == "/" and spec.get("persistentVolumeReclaimPolicy") == "Recycle":
        errors.append(forbidden("spec.persistentVolumeReclaimPolicy", "may not be 'recycle' for a hostPath mount of '/'"))
    return [*errors, *_check_classes(spec), *_check_mount_options(document)]


def _update(new: dict[str, Any], old: dict[str, Any]) -> list[FieldError]:
    errors = _check(new)
    spec, before = new["spec"], old["spec"]
    mine, theirs = ({kind: each[kind] for kind in _SOURCES if kind in each} for each in (spec, before))
    csi = mine.get("csi")
    if csi and "csi" in theirs and "controllerExpandSecretRef" not in theirs["csi"]:
        mine["csi"] = {field: value for field, value in csi.items() if field != "controllerExpandSecretRef"}
    if mine != theirs:
        text = f"spec.persistentvolumesource is immutable after creation\n{diff(theirs, mine)}"
        errors.append(forbidden("spec.persistentvolumesource", text))
    if spec.get("volumeMode") != before.get("volumeMode"):
        errors.append(invalid("volumeMode", spec.get("volumeMode"), "field is immutable"))
    if before.get("volumeAttributesClassName") is not None and spec.get("volumeAttributesClassName") is None:
        errors.append(forbidden("spec.volumeAttributesClassName", "update from non-nil value to nil is forbidden"))
    return errors


def _warn(document: Mapping[str, Any], _old: Mapping[str, Any] | None) -> list[str]:
    spec, annotations = document["spec"], document["metadata"].get("annotations") or {}
    told = [f"metadata.annotations[{key}]: {text}" for key, text in _OLD_ANNOTATIONS.items() if key in annotations]
    if spec.get("persistentVolumeReclaimPolicy") == "Recycle":
        told.append(_RECYCLE)
    return [*told, *(f"spec.{kind}: {text}" for kind, text in _GONE.items() if kind in spec)]


def _cells(document: Mapping[str, Any], now: float) -> list[Any]:
    spec, status = document["spec"], document.get("status") or {}
    claim = spec.get("claimRef")
    return [
        document["metadata"]["name"],
        (spec.get("capacity") or {}).get("storage", "0"),
        modes_text(spec.get("accessModes")),
        spec.get("persistentVolumeReclaimPolicy", ""),
        "Terminating" if document["metadata"].get("deletionTimestamp") else status.get("phase", ""),
        f"{claim.get('namespace', '')}/{claim.get('name', '')}" if claim else "",
        class_of(document),
        spec.get("volumeAttributesClassName") or "<unset>",
        status.get("reason", ""),
        age_of(document, now),
        spec.get("volumeMode") or "<unset>",
    ]


PERSISTENT_VOLUME: Final = Rules(
    default=_default,
    check=_check,
    check_update=_update,
    prepare=_prepare,
    warnings=_warn,
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
    cells=_cells,
)
