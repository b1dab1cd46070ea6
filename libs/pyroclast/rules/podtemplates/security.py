"""Security settings of a pod and of its containers."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from pyroclast.rules.errors import FieldError, duplicate, forbidden, invalid, required, unsupported
from pyroclast.rules.podtemplates.mounts import check_descending
from pyroclast.rules.values import Json, integer, items, mapping, mappings, text

__all__ = ["check_pod_security", "check_security_context"]

ID_RANGE = "must be between 0 and 2147483647, inclusive"

_PROFILES = ("Localhost", "RuntimeDefault", "Unconfined")
_SYSCTL_FORM = r"^([a-z0-9]([-_a-z0-9]*[a-z0-9])?[\./])*[a-z0-9]([-_a-z0-9]*[a-z0-9])?$"
_SYSCTL = re.compile(_SYSCTL_FORM)
_IPC_SYSCTLS = ("kernel.shm", "kernel.msg", "kernel.sem", "fs.mqueue.")


def check_security_context(context: Json, path: str, errors: list[FieldError]) -> None:
    """`securityContext` of a container."""
    given = mapping(context)
    _check_ids(given, ("runAsUser", "runAsGroup"), path, errors)
    mount = given.get("procMount")
    if mount is not None and mount not in ("Default", "Unmasked"):
        errors.append(unsupported(f"{path}.procMount", mount, ("Default", "Unmasked")))
    _check_profiles(given, path, errors)
    if given.get("allowPrivilegeEscalation") is False:
        said = "cannot set `allowPrivilegeEscalation` to false and"
        if given.get("privileged") is True:
            errors.append(invalid(path, context, f"{said} `privileged` to true"))
        if "CAP_SYS_ADMIN" in items(mapping(given.get("capabilities")).get("add")):
            errors.append(invalid(path, context, f"{said} `capabilities.Add` CAP_SYS_ADMIN"))


def check_pod_security(spec: Mapping[str, Any], path: str, errors: list[FieldError]) -> None:
    """What the spec of a pod says of its security: `securityContext` and the namespaces of the host."""
    on_network, with_pids = spec.get("hostNetwork") is True, spec.get("hostPID") is True
    if on_network:
        _check_host_ports(spec, path, errors)
    if spec.get("shareProcessNamespace") is True and with_pids:
        detail = "ShareProcessNamespace and HostPID cannot both be enabled"
        errors.append(invalid(f"{path}.securityContext.shareProcessNamespace", True, detail))
    context = mapping(spec.get("securityContext"))
    if not context:
        return
    where = f"{path}.securityContext"
    _check_ids(context, ("fsGroup", "runAsUser", "runAsGroup"), where, errors)
    for index, group in enumerate(items(context.get("supplementalGroups"))):
        if not _is_id(group):
            errors.append(invalid(f"{where}.supplementalGroups[{index}]", group, ID_RANGE))
    for key, choices in (
        ("supplementalGroupsPolicy", ("Merge", "Strict")),
        ("fsGroupChangePolicy", ("Always", "OnRootMismatch")),
    ):
        value = context.get(key)
        if value is not None and value not in choices:
            errors.append(unsupported(f"{where}.{key}", value, choices))
    _check_sysctls(
        context.get("sysctls"), f"{where}.sysctls", errors, on_network=on_network, with_ipc=spec.get("hostIPC") is True
    )
    _check_profiles(context, where, errors)


def _check_host_ports(spec: Mapping[str, Any], path: str, errors: list[FieldError]) -> None:
    for number, container in mappings(spec.get("containers")):
        for index, port in mappings(container.get("ports")):
            on_host = integer(port.get("hostPort"))
            if on_host and on_host != integer(port.get("containerPort")):
                where = f"{path}.containers[{number}].ports[{index}].hostPort"
                errors.append(invalid(where, on_host, "must match `containerPort` when `hostNetwork` is true"))


def _check_sysctls(sysctls: Json, path: str, errors: list[FieldError], *, on_network: bool, with_ipc: bool) -> None:
    seen: set[str] = set()
    for index, sysctl in mappings(sysctls):
        where, name = f"{path}[{index}].name", text(sysctl.get("name"))
        dotted = name.replace("/", ".")
        if not name:
            errors.append(required(where))
        elif len(name) > 253 or not _SYSCTL.fullmatch(name):
            errors.append(invalid(where, name, f"must have at most 253 characters and match regex {_SYSCTL_FORM}"))
        elif name in seen:
            errors.append(duplicate(where, name))
        seen.add(name)
        if on_network and dotted.startswith("net."):
            errors.append(invalid(where, name, "may not be specified when 'hostNetwork' is true"))
        if with_ipc and dotted.startswith(_IPC_SYSCTLS):
            errors.append(invalid(where, name, "may not be specified when 'hostIPC' is true"))


def _check_ids(context: Mapping[str, Any], keys: tuple[str, ...], path: str, errors: list[FieldError]) -> None:
    for key in keys:
        value = context.get(key)
        if value is not None and not _is_id(value):
            errors.append(invalid(f"{path}.{key}", value, ID_RANGE))


def _is_id(value: Json) -> bool:
    return type(value) is int and 0 <= value < 2**31


def _check_profiles(context: Mapping[str, Any], path: str, errors: list[FieldError]) -> None:
    if (seccomp := context.get("seccompProfile")) is not None:
        _check_profile(mapping(seccomp), f"{path}.seccompProfile", errors, name="seccomp")
    if (armour := context.get("appArmorProfile")) is not None:
        _check_profile(mapping(armour), f"{path}.appArmorProfile", errors, name="AppArmor")


def _check_profile(profile: Mapping[str, Any], path: str, errors: list[FieldError], *, name: str) -> None:
    kind, file = text(profile.get("type")), profile.get("localhostProfile")
    if not kind:
        errors.append(required(f"{path}.type", "type is required when seccompProfile is set" if name == "seccomp" else ""))
    elif kind not in _PROFILES:
        errors.append(unsupported(f"{path}.type", kind, _PROFILES))
    if kind == "Localhost":
        if file is None:
            errors.append(required(f"{path}.localhostProfile", f"must be set when {name} type is Localhost"))
        elif name == "seccomp":
            check_descending(text(file), f"{path}.localhostProfile", errors)
    elif file is not None:
        detail = f"can only be set when {name} type is Localhost"
        where = f"{path}.localhostProfile"
        shown = {"Type": kind, "LocalhostProfile": file}
        errors.append(invalid(where, shown, detail) if name == "seccomp" else forbidden(where, detail))
