"""Volumes that somebody else keeps: disks, file servers, and drivers."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any, Final

from pyroclast_standalone.apiserver.documents import names
from pyroclast_standalone.apiserver.documents.errors import FieldError, invalid, required, too_long, unsupported

from .checks import named
from .paths import check_descending, check_no_backsteps

__all__ = ["SOURCES", "check_csi_driver", "check_host_path", "check_secret_reference", "needs"]

_HOST_PATH_TYPES: Final = (
    "",
    "BlockDevice",
    "CharDevice",
    "Directory",
    "DirectoryOrCreate",
    "File",
    "FileOrCreate",
    "Socket",
)
_FORMS: Final = {
    "iqn": re.compile(r"iqn\.\d{4}-\d{2}\.([-a-z0-9.]+)(:[^,;*&$|\s]+)$"),
    "eui": re.compile(r"^eui.[0-9A-Fa-f]{16}$"),
    "naa": re.compile(r"^naa.[0-9A-Fa-f]{32}$"),
}
_HOST_PORTS: Final = "must be a host:port pair or multiple pairs separated by commas"
_MANAGED_DISK: Final = "/subscriptions/{sub-id}/resourcegroups/{group-name}/providers/microsoft.compute/disks/{disk-id}"
_BLOB_DISK: Final = "https://{account-name}.blob.core.windows.net/{container-name}/{disk-name}.vhd"

Source = Mapping[str, Any]


def needs(source: Source, path: str, *fields: str) -> list[FieldError]:
    """`fields` must be given."""
    return [required(f"{path}.{field}") for field in fields if not source.get(field)]


def check_host_path(source: Source, path: str) -> list[FieldError]:
    """What is wrong with a directory of the node."""
    target, kind = source.get("path", ""), source.get("type", "")
    if not target:
        return [required(f"{path}.path")]
    errors = check_no_backsteps(target, f"{path}.path")
    return errors if kind in _HOST_PATH_TYPES else [*errors, unsupported(f"{path}.type", kind, _HOST_PATH_TYPES)]


def _check_git(source: Source, path: str) -> list[FieldError]:
    return [*needs(source, path, "repository"), *check_descending(source.get("directory", ""), f"{path}.directory")]


def _check_partition(field: str) -> Callable[[Source, str], list[FieldError]]:
    def check(source: Source, path: str) -> list[FieldError]:
        partition = source.get("partition", 0)
        errors = needs(source, path, field)
        if not 0 <= partition <= 255:
            errors.append(invalid(f"{path}.partition", partition, "must be between 1 and 255, inclusive"))
        return errors

    return check


def _check_unit(lun: int, path: str) -> list[FieldError]:
    return [] if 0 <= lun <= 255 else [invalid(f"{path}.lun", lun, "must be between 0 and 255, inclusive")]


def _check_initiator(name: str, path: str) -> list[FieldError]:
    form = _FORMS.get(name[:3])
    if form is None:
        return [invalid(path, name, "must be valid format starting with iqn, eui, or naa")]
    return [] if form.match(name) else [invalid(path, name, "must be valid format")]


def _check_iscsi(source: Source, path: str) -> list[FieldError]:
    errors = needs(source, path, "targetPortal", "iqn")
    if name := source.get("iqn"):
        errors += _check_initiator(name, f"{path}.iqn")
    errors += _check_unit(source.get("lun", 0), path)
    if (source.get("chapAuthDiscovery") or source.get("chapAuthSession")) and source.get("secretRef") is None:
        errors.append(required(f"{path}.secretRef"))
    if (name := source.get("initiatorName")) is not None:
        errors += _check_initiator(name, f"{path}.initiatorname")
    return errors


def _check_fibre(source: Source, path: str) -> list[FieldError]:
    ports, ids = source.get("targetWWNs"), source.get("wwids")
    errors: list[FieldError] = []
    if not ports and not ids:
        errors.append(required(f"{path}.targetWWNs", "must specify either targetWWNs or wwids, but not both"))
    if ports and ids:
        errors.append(invalid(f"{path}.targetWWNs", ports, "targetWWNs and wwids can not be specified simultaneously"))
    if ports and source.get("lun") is None:
        errors.append(required(f"{path}.lun", "lun is required if targetWWNs is specified"))
    elif ports:
        errors += _check_unit(source["lun"], path)
    return errors


def _check_nfs(source: Source, path: str) -> list[FieldError]:
    errors = needs(source, path, "server", "path")
    target = source.get("path", "")
    return errors if target.startswith("/") else [*errors, invalid(f"{path}.path", target, "must be an absolute path")]


def _check_quobyte(source: Source, path: str) -> list[FieldError]:
    registry = source.get("registry", "")
    errors: list[FieldError] = []
    if not registry:
        errors.append(required(f"{path}.registry", _HOST_PORTS))
    elif len(source.get("tenant", "")) > 64:
        errors.append(required(f"{path}.tenant", "must be a UUID and may not exceed a length of 64 characters"))
    else:
        errors += [invalid(f"{path}.registry", registry, _HOST_PORTS) for each in registry.split(",") if each.count(":") != 1]
    return [*errors, *needs(source, path, "volume")]


def _check_flocker(source: Source, path: str) -> list[FieldError]:
    name, uid = source.get("datasetName", ""), source.get("datasetUUID", "")
    errors: list[FieldError] = []
    if not name and not uid:
        errors.append(required(path, "one of datasetName and datasetUUID is required"))
    if name and uid:
        errors.append(invalid(path, "resource", "datasetName and datasetUUID can not be specified simultaneously"))
    if "/" in name:
        errors.append(invalid(f"{path}.datasetName", name, "must not contain '/'"))
    return errors


def _check_cinder(source: Source, path: str) -> list[FieldError]:
    errors = needs(source, path, "volumeID")
    if (secret := source.get("secretRef")) is not None:
        errors += needs(secret, f"{path}.secretRef", "name")
    return errors


def _check_flex(source: Source, path: str) -> list[FieldError]:
    errors = needs(source, path, "driver")
    for key in source.get("options") or ():
        if f".{key.partition('/')[0].lower()}".endswith((".kubernetes.io", ".k8s.io")):
            errors.append(invalid(f"{path}.options[{key}]", key, "kubernetes.io and k8s.io namespaces are reserved"))
    return errors


def _check_azure_disk(source: Source, path: str) -> list[FieldError]:
    errors = needs(source, path, "diskName", "diskURI")
    address, kind = source.get("diskURI", ""), source.get("kind", "")
    for field, supported in (("cachingMode", ("None", "ReadOnly", "ReadWrite")), ("kind", ("Dedicated", "Managed", "Shared"))):
        if source.get(field) not in supported:
            errors.append(unsupported(f"{path}.{field}", source.get(field), supported))
    if kind == "Managed" and not address.startswith("/subscriptions/"):
        errors.append(unsupported(f"{path}.diskURI", address, [_MANAGED_DISK]))
    if kind != "Managed" and not address.startswith("https://"):
        errors.append(unsupported(f"{path}.diskURI", address, [_BLOB_DISK]))
    return errors


def _check_storage_os(source: Source, path: str) -> list[FieldError]:
    name = source.get("volumeName", "")
    errors = named(name, names.dns_label, f"{path}.volumeName") if name else [required(f"{path}.volumeName")]
    if namespace := source.get("volumeNamespace"):
        errors += named(namespace, names.dns_label, f"{path}.volumeNamespace")
    if (secret := source.get("secretRef")) is not None:
        errors += needs(secret, f"{path}.secretRef", "name")
    return errors


def check_csi_driver(driver: str, path: str) -> list[FieldError]:
    """What is wrong with the name of a driver."""
    errors = [] if driver else [required(path)]
    if len(driver) > 63:
        errors.append(too_long(path, 63))
    return [*errors, *([invalid(path, driver, text) for text in names.dns_subdomain(driver.lower())] if driver else [])]


def check_secret_reference(secret: Source | None, path: str) -> list[FieldError]:
    """What is wrong with a reference to a secret in any namespace."""
    if secret is None:
        return []
    name, namespace = secret.get("name", ""), secret.get("namespace", "")
    errors = named(name, names.dns_subdomain, f"{path}.name") if name else [required(f"{path}.name")]
    return [*errors, *(named(namespace, names.dns_label, f"{path}.namespace") if namespace else [required(f"{path}.namespace")])]


def _check_csi(source: Source, path: str) -> list[FieldError]:
    errors = check_csi_driver(source.get("driver", ""), f"{path}.driver")
    if (secret := source.get("nodePublishSecretRef")) is not None:
        name = secret.get("name", "")
        errors += named(name, names.dns_subdomain, f"{path}.name") if name else [required(f"{path}.nodePublishSecretRef.name")]
    return errors


def _needed(*fields: str) -> Callable[[Source, str], list[FieldError]]:
    return lambda source, path: needs(source, path, *fields)


SOURCES: Final[Mapping[str, Callable[[Source, str], list[FieldError]]]] = {
    "hostPath": check_host_path,
    "gitRepo": _check_git,
    "gcePersistentDisk": _check_partition("pdName"),
    "awsElasticBlockStore": _check_partition("volumeID"),
    "nfs": _check_nfs,
    "iscsi": _check_iscsi,
    "glusterfs": _needed("endpoints", "path"),
    "flocker": _check_flocker,
    "persistentVolumeClaim": _needed("claimName"),
    "rbd": _needed("monitors", "image"),
    "cinder": _check_cinder,
    "cephfs": _needed("monitors"),
    "quobyte": _check_quobyte,
    "fc": _check_fibre,
    "flexVolume": _check_flex,
    "azureFile": _needed("secretName", "shareName"),
    "vsphereVolume": _needed("volumePath"),
    "photonPersistentDisk": _needed("pdID"),
    "portworxVolume": _needed("volumeID"),
    "azureDisk": _check_azure_disk,
    "storageos": _check_storage_os,
    "scaleIO": _needed("gateway", "system", "volumeName"),
    "csi": _check_csi,
}
"""What is wrong with a source, by its field; those that are made of the pod's own objects are not here."""
