"""Rules for the mounts and devices of a container."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pyroclast.rules.errors import FieldError, forbidden, invalid, not_found, required, unsupported
from pyroclast.rules.podspecs.options import check_member
from pyroclast.rules.values import mapping, mappings, text

_PROPAGATION = ("Bidirectional", "HostToContainer", "None")
_RECURSIVE = ("Disabled", "Enabled", "IfPossible")
_CLAIMS = ("persistentVolumeClaim", "ephemeral")


def check_mounts(container: Mapping[str, Any], path: str, errors: list[FieldError], volumes: Mapping[str, str]) -> None:
    """Check `volumeMounts` of the container, at `path`."""
    paths: set[str] = set()
    devices = container.get("volumeDevices")
    device_names = {text(device.get("name")) for _, device in mappings(devices)} if devices else ()
    device_paths = {text(device.get("devicePath")) for _, device in mappings(devices)} if devices else ()
    for index, mount in mappings(container["volumeMounts"]):
        where = f"{path}[{index}]"
        name, at = text(mount.get("name")), text(mount.get("mountPath"))
        if not name:
            errors.append(required(f"{where}.name"))
        if name not in volumes:
            errors.append(not_found(f"{where}.name", name))
        if not at:
            errors.append(required(f"{where}.mountPath"))
        if at in paths:
            errors.append(invalid(f"{where}.mountPath", at, "must be unique"))
        paths.add(at)
        if name in device_names:
            errors.append(invalid(f"{where}.name", name, "must not already exist in volumeDevices"))
        if at in device_paths:
            errors.append(invalid(f"{where}.mountPath", at, "must not already exist as a path in volumeDevices"))
        _check_sub_path(mount, path, where, errors)
        _check_sharing(mount, container, path, errors)


def _check_sub_path(mount: Mapping[str, Any], path: str, where: str, errors: list[FieldError]) -> None:
    sub_path, expression = text(mount.get("subPath")), text(mount.get("subPathExpr"))
    if sub_path:
        check_descending(sub_path, f"{path}.subPath", errors)
    if expression:
        if sub_path:
            errors.append(invalid(f"{where}.subPathExpr", expression, "subPathExpr and subPath are mutually exclusive"))
        check_descending(expression, f"{path}.subPathExpr", errors)


def _check_sharing(mount: Mapping[str, Any], container: Mapping[str, Any], path: str, errors: list[FieldError]) -> None:
    propagation, recursive = mount.get("mountPropagation"), mount.get("recursiveReadOnly")
    check_member(mount, "mountPropagation", _PROPAGATION, path, errors)
    if propagation == "Bidirectional" and mapping(container.get("securityContext")).get("privileged") is not True:
        detail = "Bidirectional mount propagation is available only to privileged containers"
        errors.append(forbidden(f"{path}.mountPropagation", detail))
    if recursive is None or recursive == "Disabled":
        return
    where = f"{path}.recursiveReadOnly"
    if recursive not in _RECURSIVE:
        errors.append(unsupported(where, recursive, _RECURSIVE))
        return
    if mount.get("readOnly") is not True:
        errors.append(forbidden(where, "may only be specified when readOnly is true"))
    if propagation not in (None, "None"):
        errors.append(forbidden(where, "may only be specified when mountPropagation is None or not specified"))


def check_devices(container: Mapping[str, Any], path: str, errors: list[FieldError], volumes: Mapping[str, str]) -> None:
    """Check `volumeDevices` of the container, at `path`."""
    names: set[str] = set()
    paths: set[str] = set()
    mounts = [mount for _, mount in mappings(container.get("volumeMounts"))]
    for index, device in mappings(container["volumeDevices"]):
        where = f"{path}[{index}]"
        name, at = text(device.get("name")), text(device.get("devicePath"))
        if not name:
            errors.append(required(f"{where}.name"))
        if name in names:
            errors.append(invalid(f"{where}.name", name, "must be unique"))
        if name not in volumes:
            errors.append(not_found(f"{where}.name", name))
        elif volumes[name] not in _CLAIMS:
            detail = "can only use volume source type of PersistentVolumeClaim or Ephemeral for block mode"
            errors.append(invalid(f"{where}.name", name, detail))
        if not at:
            errors.append(required(f"{where}.devicePath"))
        if at in paths:
            errors.append(invalid(f"{where}.devicePath", at, "must be unique"))
        if has_backsteps(at):
            errors.append(invalid(f"{where}.devicePath", at, "can not contain backsteps ('..')"))
        else:
            paths.add(at)
        if any(mount.get("name") == name for mount in mounts):
            errors.append(invalid(f"{where}.name", name, "must not already exist in volumeMounts"))
        if any(mount.get("mountPath") == at for mount in mounts):
            errors.append(invalid(f"{where}.devicePath", at, "must not already exist as a path in volumeMounts"))
        if name:
            names.add(name)


def check_descending(path_text: str, path: str, errors: list[FieldError]) -> None:
    """Check that a path is relative and stays below its base folder."""
    if path_text.startswith("/"):
        errors.append(invalid(path, path_text, "must be a relative path"))
    if has_backsteps(path_text):
        errors.append(invalid(path, path_text, "must not contain '..'"))


def has_backsteps(path_text: str) -> bool:
    """Whether a segment of a path is `..`."""
    return ".." in path_text.split("/")
