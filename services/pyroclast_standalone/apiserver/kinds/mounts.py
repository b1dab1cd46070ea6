"""How containers use the volumes of their pod: as directories and as devices."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from pyroclast_standalone.apiserver.documents.errors import FieldError, forbidden, invalid, not_found, required, unsupported

from .paths import check_descending, check_no_backsteps
from .volumes import Volumes

__all__ = ["check_devices", "check_mounts"]

_PROPAGATIONS: Final = ("Bidirectional", "HostToContainer", "None")
_RECURSIONS: Final = ("Disabled", "Enabled", "IfPossible")


def _check_propagation(mount: Mapping[str, Any], container: Mapping[str, Any], path: str) -> list[FieldError]:
    mode = mount.get("mountPropagation")
    errors: list[FieldError] = []
    if mode is not None and mode not in _PROPAGATIONS:
        errors.append(unsupported(f"{path}.mountPropagation", mode, _PROPAGATIONS))
    if mode == "Bidirectional" and not (container.get("securityContext") or {}).get("privileged"):
        text = "Bidirectional mount propagation is available only to privileged containers"
        errors.append(forbidden(f"{path}.mountPropagation", text))
    own, recursion = f"{path}.recursiveReadOnly", mount.get("recursiveReadOnly")
    if recursion in {"Enabled", "IfPossible"}:
        if not mount.get("readOnly"):
            errors.append(forbidden(own, "may only be specified when readOnly is true"))
        if mode not in {None, "None"}:
            errors.append(forbidden(own, "may only be specified when mountPropagation is None or not specified"))
    elif recursion not in {None, "Disabled"}:
        errors.append(unsupported(own, recursion, _RECURSIONS))
    return errors


def check_mounts(container: Mapping[str, Any], volumes: Volumes, path: str) -> list[FieldError]:
    """What is wrong with the directories that a container gets."""
    errors: list[FieldError] = []
    seen: set[str] = set()
    devices = {each.get("name", ""): each.get("devicePath", "") for each in container.get("volumeDevices") or ()}
    for index, mount in enumerate(container.get("volumeMounts") or ()):
        name, where = mount.get("name", ""), mount.get("mountPath", "")
        if not name:
            errors.append(required(f"{path}[{index}].name"))
        if name not in volumes:
            errors.append(not_found(f"{path}[{index}].name", name))
        if not where:
            errors.append(required(f"{path}[{index}].mountPath"))
        if where in seen:
            errors.append(invalid(f"{path}[{index}].mountPath", where, "must be unique"))
        seen.add(where)
        if name in devices:
            errors.append(invalid(f"{path}[{index}].name", name, "must not already exist in volumeDevices"))
        if devices and where in devices.values():
            text = "must not already exist as a path in volumeDevices"
            errors.append(invalid(f"{path}[{index}].mountPath", where, text))
        if target := mount.get("subPath"):
            errors += check_descending(target, f"{path}.subPath")
        if expression := mount.get("subPathExpr"):
            if mount.get("subPath"):
                errors.append(
                    invalid(f"{path}[{index}].subPathExpr", expression, "subPathExpr and subPath are mutually exclusive")
                )
            errors += check_descending(expression, f"{path}.subPathExpr")
        if "mountPropagation" in mount or "recursiveReadOnly" in mount:
            errors += _check_propagation(mount, container, path)
    return errors


def check_devices(container: Mapping[str, Any], volumes: Volumes, path: str) -> list[FieldError]:
    """What is wrong with the devices that a container gets."""
    errors: list[FieldError] = []
    seen: set[str] = set()
    paths: set[str] = set()
    mounts = {each.get("name", ""): each.get("mountPath", "") for each in container.get("volumeMounts") or ()}
    for index, device in enumerate(container.get("volumeDevices") or ()):
        own = f"{path}[{index}]"
        name, where = device.get("name", ""), device.get("devicePath", "")
        if not name:
            errors.append(required(f"{own}.name"))
        if name in seen:
            errors.append(invalid(f"{own}.name", name, "must be unique"))
        if name not in volumes:
            errors.append(not_found(f"{own}.name", name))
        elif not {"persistentVolumeClaim", "ephemeral"} & set(volumes[name]):
            text = "can only use volume source type of PersistentVolumeClaim or Ephemeral for block mode"
            errors.append(invalid(f"{own}.name", name, text))
        if not where:
            errors.append(required(f"{own}.devicePath"))
        if where in paths:
            errors.append(invalid(f"{own}.devicePath", where, "must be unique"))
        if check_no_backsteps(where, own):
            errors.append(invalid(f"{own}.devicePath", where, "can not contain backsteps ('..')"))
        else:
            paths.add(where)
        if name in mounts:
            errors.append(invalid(f"{own}.name", name, "must not already exist in volumeMounts"))
        if where in mounts.values():
            errors.append(invalid(f"{own}.devicePath", where, "must not already exist as a path in volumeMounts"))
        if name:
            seen.add(name)
    return errors
