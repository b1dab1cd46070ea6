"""Rules for volumes of a pod: each has one source, with the fields that this kind of source needs."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

from pyroclast.rules.errors import FieldError, duplicate, forbidden, invalid, invalid_for, required, too_long, unsupported
from pyroclast.rules.names import dns_label, dns_subdomain
from pyroclast.rules.podspecs.disks import DISK_CHECKS, check_claim_template
from pyroclast.rules.podspecs.environment import check_field_ref, check_resource_field_ref
from pyroclast.rules.podspecs.mounts import check_descending, has_backsteps
from pyroclast.rules.podspecs.options import Options, check_choice
from pyroclast.rules.values import Json, amount, integer, mapping, mappings, text

_POSITIONS: Final = {
    kind: position
    for position, kind in enumerate(
        """emptyDir hostPath gitRepo gcePersistentDisk awsElasticBlockStore secret nfs iscsi glusterfs flocker
        persistentVolumeClaim rbd cinder cephfs quobyte downwardAPI fc flexVolume configMap azureFile
        vsphereVolume photonPersistentDisk portworxVolume azureDisk storageos projected scaleIO csi ephemeral
        image""".split()  # noqa: SIM905
    )
}
"""The position of each kind of volume in the order in which the API server checks them, so that both treat the same as first."""

LONGEST_DRIVER = 63
MODE_RANGE = "must be a number between 0 and 0777 (octal), both inclusive"
VOLUME_FIELDS = ("metadata.annotations", "metadata.labels", "metadata.name", "metadata.namespace", "metadata.uid")

_HOST_PATH_TYPES = ("BlockDevice", "CharDevice", "Directory", "DirectoryOrCreate", "File", "FileOrCreate", "Socket")
_PULL_POLICIES = ("Always", "IfNotPresent", "Never")
_REPORTED_AS = {"gcePersistentDisk": "persistentDisk"}
_SECOND_AS = {"cephfs": "cephFS", "downwardAPI": "downwarAPI"}
"""The names of kinds in the API server's errors."""

_NO_SOURCE = "emptyDir"
"""The kind of a volume without a source."""


def check_volumes(volumes: Json, path: str, errors: list[FieldError], options: Options) -> dict[str, str]:
    """Check the volumes at `path`. Returns the kind of source of each valid volume, by name; containers may only mount these."""
    sound: dict[str, str] = {}
    prefix = f"{options.pod_name}-" if options.pod_name else ""
    ephemeral = [text(each.get("name")) for _, each in mappings(volumes) if each.get("ephemeral") is not None] if prefix else ()
    made = {f"{prefix}{name}" for name in ephemeral}
    for index, volume in mappings(volumes):
        where = f"{path}[{index}]"
        found: list[FieldError] = []
        kind = _check_sources(volume, where, found, options)
        name = text(volume.get("name"))
        if prefix and name and kind == "ephemeral":
            problems = dns_subdomain(f"{prefix}{name}")
            found += [invalid(f"{where}.name", name, f'PVC name "{prefix}{name}": {problem}') for problem in problems]
        if not name:
            found.append(required(f"{where}.name"))
        elif problems := dns_label(name):
            found += invalid_for(f"{where}.name", name, problems)
        if name in sound:
            found.append(duplicate(f"{where}.name", name))
        if found:
            errors += found
        else:
            sound[name] = kind
        if made and (claim := mapping(volume.get("persistentVolumeClaim")).get("claimName")) in made:
            detail = "must not reference a PVC that gets created for an ephemeral volume"
            errors.append(invalid(f"{where}.persistentVolumeClaim.claimName", claim, detail))
    return sound


def _check_sources(volume: Mapping[str, Any], path: str, errors: list[FieldError], options: Options) -> str:
    kinds = [kind for kind, source in volume.items() if kind != "name" and source is not None]
    if not kinds:
        if options.has_defaults:
            errors.append(required(path, "must specify a volume type"))
        return _NO_SOURCE
    first, *others = sorted(kinds, key=lambda kind: _POSITIONS.get(kind, len(_POSITIONS))) if len(kinds) > 1 else kinds
    source, where = mapping(volume[first]), f"{path}.{_REPORTED_AS.get(first, first)}"
    errors += [required(f"{where}.{key}") for key in _REQUIRED.get(first, ()) if not source.get(key)]
    if (source and (check := _CHECKS.get(first))) or (check := DISK_CHECKS.get(first)):
        check(source, where, errors)
    if first == "image":
        _check_image(source, f"{path}.image", errors, options)
    errors += [forbidden(f"{path}.{_SECOND_AS.get(kind, kind)}", "may not specify more than 1 volume type") for kind in others]
    return first


def _check_image(image: Mapping[str, Any], path: str, errors: list[FieldError], options: Options) -> None:
    if options.pod_name is not None and not image.get("reference"):
        errors.append(required(f"{path}.reference"))
    errors += check_choice(image, "pullPolicy", _PULL_POLICIES, path, options)


def _check_ephemeral(source: Mapping[str, Any], path: str, errors: list[FieldError]) -> None:
    if (template := source.get("volumeClaimTemplate")) is not None:
        check_claim_template(mapping(template), f"{path}.volumeClaimTemplate", errors)


def _check_empty_dir(source: Mapping[str, Any], path: str, errors: list[FieldError]) -> None:
    limit = amount(source.get("sizeLimit"))
    if limit is not None and limit.millis < 0:
        errors.append(forbidden(f"{path}.sizeLimit", "SizeLimit field must be a valid resource quantity"))


def _check_host_path(source: Mapping[str, Any], path: str, errors: list[FieldError]) -> None:
    at, kind = text(source.get("path")), text(source.get("type"))
    if not at:
        return
    if has_backsteps(at):
        errors.append(invalid(f"{path}.path", at, "must not contain '..'"))
    if kind and kind not in _HOST_PATH_TYPES:
        errors.append(unsupported(f"{path}.type", kind, ("", *_HOST_PATH_TYPES)))


def _check_files(source: Mapping[str, Any], path: str, errors: list[FieldError]) -> None:
    _check_mode(source.get("defaultMode"), f"{path}.defaultMode", errors)
    if keys := source.get("items"):
        _check_keys(keys, f"{path}.items", errors)


def _check_keys(keys: Json, path: str, errors: list[FieldError]) -> None:
    for index, item in mappings(keys):
        where = f"{path}[{index}]"
        if not item.get("key"):
            errors.append(required(f"{where}.key"))
        _check_file_path(item, where, errors)
        _check_mode(item.get("mode"), f"{where}.mode", errors)


def _check_file_path(item: Mapping[str, Any], where: str, errors: list[FieldError]) -> None:
    at = text(item.get("path"))
    if not at:
        errors.append(required(f"{where}.path"))
    check_descending(at, f"{where}.path", errors)
    if at.startswith("..") and not at.startswith("../"):
        errors.append(invalid(f"{where}.path", at, "must not start with '..'"))


def _check_mode(mode: Json, path: str, errors: list[FieldError]) -> None:
    if mode is not None and not 0 <= integer(mode) <= 0o777:
        errors.append(invalid(path, mode, MODE_RANGE))


def _check_downward(source: Mapping[str, Any], path: str, errors: list[FieldError]) -> None:
    _check_mode(source.get("defaultMode"), f"{path}.defaultMode", errors)
    for _, item in mappings(source.get("items")):
        where = path  # the API server reports the path of the volume, not of the item
        _check_file_path(item, where, errors)
        field, resource = item.get("fieldRef"), item.get("resourceFieldRef")
        if field is not None:
            check_field_ref(mapping(field), f"{where}.fieldRef", errors, VOLUME_FIELDS)
            if resource is not None:
                errors.append(invalid(where, "resource", "fieldRef and resourceFieldRef can not be specified simultaneously"))
        elif resource is not None:
            if not mapping(resource).get("containerName"):
                errors.append(required(f"{where}.resourceFieldRef.containerName"))
            else:
                check_resource_field_ref(mapping(resource), f"{where}.resourceFieldRef", errors)
        else:
            errors.append(required(where, "one of fieldRef and resourceFieldRef is required"))
        _check_mode(item.get("mode"), f"{where}.mode", errors)


def _check_projected(source: Mapping[str, Any], path: str, errors: list[FieldError]) -> None:
    _check_mode(source.get("defaultMode"), f"{path}.defaultMode", errors)
    taken: set[str] = set()
    for index, projection in mappings(source.get("sources")):
        where = f"{path}.sources[{index}]"
        for kind in ("secret", "configMap"):
            if projection.get(kind) is not None:
                given = mapping(projection[kind])
                if not given.get("name"):
                    errors.append(required(f"{where}.{kind}.name"))
                _check_keys(given.get("items"), f"{where}.{kind}.items", errors)
                for _, item in mappings(given.get("items")):
                    _take(text(item.get("path")), taken, path, text(given.get("name")), errors)
        if projection.get("downwardAPI") is not None:
            given = mapping(projection["downwardAPI"])
            _check_downward(given, f"{where}.downwardAPI", errors)
            for _, item in mappings(given.get("items")):
                _take(text(item.get("path")), taken, path, text(item.get("path")), errors)
        if projection.get("serviceAccountToken") is not None:
            _check_token(mapping(projection["serviceAccountToken"]), path, index, errors)
        if sum(given is not None for given in projection.values()) > 1:
            errors.append(forbidden(where, "may not specify more than 1 volume type per source"))


def _take(target: str, taken: set[str], path: str, shown: str, errors: list[FieldError]) -> None:
    if target in taken:
        errors.append(invalid(path, shown, "conflicting duplicate paths"))
    elif target:
        taken.add(target)


def _check_token(token: Mapping[str, Any], path: str, index: int, errors: list[FieldError]) -> None:
    where = f"{path}.sources[{index}].serviceAccountToken.expirationSeconds"
    seconds = token.get("expirationSeconds")
    if seconds is not None and integer(seconds) < 10 * 60:
        errors.append(invalid(where, seconds, "may not specify a duration less than 10 minutes"))
    if seconds is not None and integer(seconds) > 1 << 32:
        errors.append(invalid(where, seconds, "may not specify a duration larger than 2^32 seconds"))
    _check_file_path(token, path, errors)


def _check_nfs(source: Mapping[str, Any], path: str, errors: list[FieldError]) -> None:
    at = text(source.get("path"))
    if not at.startswith("/"):
        errors.append(invalid(f"{path}.path", at, "must be an absolute path"))


def _check_csi(source: Mapping[str, Any], path: str, errors: list[FieldError]) -> None:
    driver, secret = text(source.get("driver")), source.get("nodePublishSecretRef")
    if len(driver) > LONGEST_DRIVER:
        errors.append(too_long(f"{path}.driver", LONGEST_DRIVER))
    if driver:
        errors += invalid_for(f"{path}.driver", driver, dns_subdomain(driver.lower()))
    if secret is not None and not (name := text(mapping(secret).get("name"))):
        errors.append(required(f"{path}.nodePublishSecretRef.name"))
    elif secret is not None:
        errors += invalid_for(f"{path}.name", name, dns_subdomain(name))


_REQUIRED: Mapping[str, tuple[str, ...]] = {
    "hostPath": ("path",),
    "gitRepo": ("repository",),
    "gcePersistentDisk": ("pdName",),
    "awsElasticBlockStore": ("volumeID",),
    "secret": ("secretName",),
    "nfs": ("server", "path"),
    "iscsi": ("targetPortal", "iqn"),
    "glusterfs": ("endpoints", "path"),
    "persistentVolumeClaim": ("claimName",),
    "rbd": ("monitors", "image"),
    "cinder": ("volumeID",),
    "cephfs": ("monitors",),
    "azureFile": ("secretName", "shareName"),
    "configMap": ("name",),
    "flexVolume": ("driver",),
    "vsphereVolume": ("volumePath",),
    "azureDisk": ("diskName", "diskURI"),
    "photonPersistentDisk": ("pdID",),
    "portworxVolume": ("volumeID",),
    "scaleIO": ("gateway", "system", "volumeName"),
    "ephemeral": ("volumeClaimTemplate",),
    "csi": ("driver",),
}
"""Keys that a source must have."""

_CHECKS: Mapping[str, Callable[[Mapping[str, Any], str, list[FieldError]], None]] = {
    "emptyDir": _check_empty_dir,
    "hostPath": _check_host_path,
    "secret": _check_files,
    "configMap": _check_files,
    "downwardAPI": _check_downward,
    "projected": _check_projected,
    "nfs": _check_nfs,
    "ephemeral": _check_ephemeral,
    "csi": _check_csi,
}
