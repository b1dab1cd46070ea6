"""Rules for the operating system and the user namespace of a pod."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pyroclast.rules.errors import FieldError, forbidden, required, unsupported
from pyroclast.rules.podspecs.annotations import containers_of
from pyroclast.rules.values import mapping, mappings, text

_NOT_ON_WINDOWS = ("hostPID", "hostIPC", "hostUsers")
_NOT_ON_WINDOWS_CONTEXT = (
    "appArmorProfile",
    "fsGroup",
    "fsGroupChangePolicy",
    "runAsGroup",
    "runAsUser",
    "seLinuxOptions",
    "seccompProfile",
    "shareProcessNamespace",
    "supplementalGroups",
    "supplementalGroupsPolicy",
    "sysctls",
)
_NOT_ON_WINDOWS_CONTAINER = (
    "allowPrivilegeEscalation",
    "appArmorProfile",
    "capabilities",
    "privileged",
    "procMount",
    "readOnlyRootFilesystem",
    "runAsGroup",
    "runAsUser",
    "seLinuxOptions",
    "seccompProfile",
)


def check_platform(spec: Mapping[str, Any], path: str, errors: list[FieldError]) -> None:
    """Check `os` of the pod at `path`, and settings that this operating system does not support."""
    name = text(mapping(spec["os"]).get("name"))
    if not name:
        errors.append(required(f"{path}.os.name", ""))
    elif name not in ("linux", "windows"):
        errors.append(unsupported(f"{path}.os", name, ("linux", "windows")))
    context = mapping(spec.get("securityContext"))
    containers = [
        (f"{path}.{part}[{index}].securityContext", mapping(container.get("securityContext")))
        for part in ("containers", "initContainers")
        for index, container in mappings(spec.get(part))
    ]
    if name == "linux":
        for where, given in ((f"{path}.securityContext", context), *containers):
            if given.get("windowsOptions") is not None:
                errors.append(forbidden(f"{where}.windowsOptions", "windows options cannot be set for a linux pod"))
    if name == "windows":
        detail = "cannot be set for a windows pod"
        errors += (forbidden(f"{path}.{key}", detail) for key in _NOT_ON_WINDOWS if spec.get(key) is not None)
        errors += (
            forbidden(f"{path}.securityContext.{key}", detail) for key in _NOT_ON_WINDOWS_CONTEXT if context.get(key) is not None
        )
        for where, given in containers:
            errors += (forbidden(f"{where}.{key}", detail) for key in _NOT_ON_WINDOWS_CONTAINER if given.get(key) is not None)


def check_host_users(spec: Mapping[str, Any], path: str, errors: list[FieldError]) -> None:
    """Check that a pod with its own user namespace shares no other namespace with its host."""
    shared = [key for key in ("hostNetwork", "hostPID", "hostIPC") if spec.get(key) is True]
    for key in shared:
        shown = key if key == "hostNetwork" else f"H{key[1:]}"  # the path in the API server's messages
        errors.append(forbidden(f"{path}.{shown}", "when `hostUsers` is false"))
    for where, container in containers_of(spec, path):
        if container.get("volumeDevices"):
            errors.append(forbidden(f"{where}.volumeDevices", "when `hostUsers` is false"))
