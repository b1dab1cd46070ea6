"""Rules for volumes of particular disks and file servers, and for templates of claims."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any, Final

from pyroclast.rules.errors import FieldError, forbidden, invalid, invalid_for, required, unsupported
from pyroclast.rules.names import dns_label, dns_subdomain
from pyroclast.rules.podspecs.annotations import check_annotation_names
from pyroclast.rules.podspecs.mounts import check_descending
from pyroclast.rules.podspecs.options import check_label_selector, check_labels
from pyroclast.rules.values import amount, integer, items, mapping, string_items, text

_MODES: Final = ("ReadOnlyMany", "ReadWriteMany", "ReadWriteOnce", "ReadWriteOncePod")
_OF_TEMPLATES: Final = ("annotations", "labels", "creationTimestamp")


def check_claim_spec(spec: Mapping[str, Any], path: str, errors: list[FieldError]) -> None:
    """Check the spec of a claim at `path`."""
    modes = string_items(spec.get("accessModes"))
    if not modes:
        errors.append(required(f"{path}.accessModes", "at least 1 access mode is required"))
    if selector := spec.get("selector"):
        check_label_selector(selector, f"{path}.selector", errors)
    errors += [unsupported(f"{path}.accessModes", mode, _MODES) for mode in modes if mode not in _MODES]
    if "ReadWriteOncePod" in modes and {*modes} & {*_MODES} - {"ReadWriteOncePod"}:
        errors.append(forbidden(f"{path}.accessModes", "may not use ReadWriteOncePod with other access modes"))
    size = mapping(mapping(spec.get("resources")).get("requests")).get("storage")
    if size is None:
        errors.append(required(f"{path}.resources[storage]"))
    elif (given := amount(size)) is not None and given.nanos <= 0:
        errors.append(invalid(f"{path}.resources[storage]", size, "must be greater than zero"))
    for field in ("storageClassName", "volumeAttributesClassName"):
        if name := text(spec.get(field)):
            errors += invalid_for(f"{path}.{field}", name, dns_subdomain(name))
    if (mode := spec.get("volumeMode")) is not None and mode not in ("Block", "Filesystem"):
        errors.append(unsupported(f"{path}.volumeMode", mode, ("Block", "Filesystem")))
    _check_sources(spec, path, errors)


def _check_sources(spec: Mapping[str, Any], path: str, errors: list[FieldError]) -> None:
    source, reference = spec.get("dataSource"), spec.get("dataSourceRef")
    for field, given in (("dataSource", source), ("dataSourceRef", reference)):
        if given is not None:
            _check_source(mapping(given), f"{path}.{field}", errors)
    if source is None or reference is None:
        return
    one, other = mapping(source), mapping(reference)
    if other.get("namespace"):
        errors.append(invalid(path, {}, "may not be specified when dataSourceRef.namespace is specified"))
    elif any(one.get(field) != other.get(field) for field in ("apiGroup", "kind", "name")):
        errors.append(invalid(path, {}, "must match dataSourceRef"))


def _check_source(source: Mapping[str, Any], path: str, errors: list[FieldError]) -> None:
    errors += [required(f"{path}.{field}") for field in ("name", "kind") if not source.get(field)]
    group, kind = text(source.get("apiGroup")), text(source.get("kind"))
    if not group and kind != "PersistentVolumeClaim":
        errors.append(invalid(path, kind, "must be 'PersistentVolumeClaim' when referencing the default apiGroup"))
    if group:
        errors += invalid_for(f"{path}.apiGroup", group, dns_subdomain(group))
    if namespace := text(source.get("namespace")):
        errors += invalid_for(f"{path}.namespace", namespace, dns_label(namespace))


def check_claim_template(template: Mapping[str, Any], path: str, errors: list[FieldError]) -> None:
    """Check the template of a claim that belongs to a single pod."""
    metadata = mapping(template.get("metadata"))
    check_annotation_names(mapping(metadata.get("annotations")), f"{path}.metadata.annotations", errors)
    check_labels(mapping(metadata.get("labels")), f"{path}.metadata.labels", errors)
    errors += [forbidden(f"{path}.metadata.{field}", "cannot be set") for field in metadata if field not in _OF_TEMPLATES]
    check_claim_spec(mapping(template.get("spec")), f"{path}.spec", errors)


_PARTITIONS = "must be between 1 and 255, inclusive"
_UNITS = "must be between 0 and 255, inclusive"
_REGISTRY = "must be a host:port pair or multiple pairs separated by commas"
_LONGEST_TENANT = 64
_INITIATORS = {
    "iqn": re.compile(r"iqn\.\d{4}-\d{2}\.([a-zA-Z0-9.-]+)(:[^,;*&$|\s]+)$", re.ASCII),
    "eui": re.compile(r"^eui.[a-zA-Z0-9]{16}$"),
    "naa": re.compile(r"^naa.[a-zA-Z0-9]{32}$"),
}
_PAIR = re.compile(r"([^:\[\]]*|\[[^\[\]]*\]):[^:\[\]]*")
_CACHING = ("None", "ReadOnly", "ReadWrite")
_AZURE_KINDS = ("Dedicated", "Managed", "Shared")
_MANAGED = "/subscriptions/{sub-id}/resourcegroups/{group-name}/providers/microsoft.compute/disks/{disk-id}"
_BLOB = "https://{account-name}.blob.core.windows.net/{container-name}/{disk-name}.vhd"
_RESERVED = (".kubernetes.io", ".k8s.io")


def _check_partition(disk: Mapping[str, Any], path: str, errors: list[FieldError]) -> None:
    if not 0 <= (partition := integer(disk.get("partition"))) <= 255:
        errors.append(invalid(f"{path}.partition", partition, _PARTITIONS))


def _check_unit(unit: int, path: str, errors: list[FieldError]) -> None:
    if not 0 <= unit <= 255:
        errors.append(invalid(f"{path}.lun", unit, _UNITS))


def _check_initiator(name: str, path: str, errors: list[FieldError]) -> None:
    form = _INITIATORS.get(name[:3])
    if form is None:
        errors.append(invalid(path, name, "must be valid format starting with iqn, eui, or naa"))
    elif not form.search(name):
        errors.append(invalid(path, name, "must be valid format"))


def _check_iscsi(disk: Mapping[str, Any], path: str, errors: list[FieldError]) -> None:
    if name := text(disk.get("iqn")):
        _check_initiator(name, f"{path}.iqn", errors)
    _check_unit(integer(disk.get("lun")), path, errors)
    if (disk.get("chapAuthDiscovery") or disk.get("chapAuthSession")) and disk.get("secretRef") is None:
        errors.append(required(f"{path}.secretRef"))
    if disk.get("initiatorName") is not None:
        _check_initiator(text(disk["initiatorName"]), f"{path}.initiatorname", errors)


def _check_fibre(disk: Mapping[str, Any], path: str, errors: list[FieldError]) -> None:
    targets, names = items(disk.get("targetWWNs")), items(disk.get("wwids"))
    if not targets and not names:
        errors.append(required(f"{path}.targetWWNs", "must specify either targetWWNs or wwids, but not both"))
    if targets and names:
        errors.append(invalid(f"{path}.targetWWNs", targets, "targetWWNs and wwids can not be specified simultaneously"))
    if targets and disk.get("lun") is None:
        errors.append(required(f"{path}.lun", "lun is required if targetWWNs is specified"))
    elif targets:
        _check_unit(integer(disk["lun"]), path, errors)


def _check_quobyte(volume: Mapping[str, Any], path: str, errors: list[FieldError]) -> None:
    registry = text(volume.get("registry"))
    if not registry:
        errors.append(required(f"{path}.registry", _REGISTRY))
    elif len(text(volume.get("tenant"))) > _LONGEST_TENANT:
        errors.append(required(f"{path}.tenant", f"must be a UUID and may not exceed a length of {_LONGEST_TENANT} characters"))
    else:
        errors += [invalid(f"{path}.registry", registry, _REGISTRY) for pair in registry.split(",") if not _PAIR.fullmatch(pair)]
    if not volume.get("volume"):
        errors.append(required(f"{path}.volume"))


def _check_flocker(volume: Mapping[str, Any], path: str, errors: list[FieldError]) -> None:
    name, uuid = text(volume.get("datasetName")), text(volume.get("datasetUUID"))
    if not name and not uuid:
        errors.append(required(path, "one of datasetName and datasetUUID is required"))
    if name and uuid:
        errors.append(invalid(path, "resource", "datasetName and datasetUUID can not be specified simultaneously"))
    if "/" in name:
        errors.append(invalid(f"{path}.datasetName", name, "must not contain '/'"))


def _check_secret(volume: Mapping[str, Any], path: str, errors: list[FieldError]) -> None:
    if (secret := volume.get("secretRef")) is not None and not mapping(secret).get("name"):
        errors.append(required(f"{path}.secretRef.name"))


def _check_flex(volume: Mapping[str, Any], path: str, errors: list[FieldError]) -> None:
    errors += [
        invalid(f"{path}.options[{key}]", key, "kubernetes.io and k8s.io namespaces are reserved")
        for key in mapping(volume.get("options"))
        if f".{key.partition('/')[0].lower()}".endswith(_RESERVED)
    ]


def _check_azure(disk: Mapping[str, Any], path: str, errors: list[FieldError]) -> None:
    caching, kind, address = disk.get("cachingMode"), disk.get("kind"), text(disk.get("diskURI"))
    kind = "Shared" if kind is None else kind
    if caching is not None and caching not in _CACHING:
        errors.append(unsupported(f"{path}.cachingMode", caching, _CACHING))
    if kind not in _AZURE_KINDS:
        errors.append(unsupported(f"{path}.kind", kind, _AZURE_KINDS))
    wanted, form = ("/subscriptions/", _MANAGED) if kind == "Managed" else ("https://", _BLOB)
    if not address.startswith(wanted):
        errors.append(unsupported(f"{path}.diskURI", address, (form,)))


def _check_storageos(volume: Mapping[str, Any], path: str, errors: list[FieldError]) -> None:
    name, namespace = text(volume.get("volumeName")), text(volume.get("volumeNamespace"))
    if not name:
        errors.append(required(f"{path}.volumeName"))
    else:
        errors += invalid_for(f"{path}.volumeName", name, dns_label(name))
    errors += invalid_for(f"{path}.volumeNamespace", namespace, dns_label(namespace)) if namespace else ()
    _check_secret(volume, path, errors)


def _check_repository(volume: Mapping[str, Any], path: str, errors: list[FieldError]) -> None:
    check_descending(text(volume.get("directory")), f"{path}.directory", errors)


DISK_CHECKS: Final[Mapping[str, Callable[[Mapping[str, Any], str, list[FieldError]], None]]] = {
    "awsElasticBlockStore": _check_partition,
    "azureDisk": _check_azure,
    "cinder": _check_secret,
    "fc": _check_fibre,
    "flexVolume": _check_flex,
    "flocker": _check_flocker,
    "gcePersistentDisk": _check_partition,
    "gitRepo": _check_repository,
    "iscsi": _check_iscsi,
    "quobyte": _check_quobyte,
    "storageos": _check_storageos,
}
"""The check of each kind of volume: takes the source, its path, and the list of errors."""
