"""Rules for the security settings of a pod and of its containers."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from pyroclast.rules.errors import FieldError, duplicate, invalid, required, too_long, unsupported
from pyroclast.rules.podspecs.internals import internal_form
from pyroclast.rules.podspecs.mounts import check_descending
from pyroclast.rules.podspecs.options import Options, check_member
from pyroclast.rules.podspecs.platform import check_windows_options
from pyroclast.rules.values import Json, integer, items, mapping, mappings, text

ID_RANGE = "must be between 0 and 2147483647, inclusive"

_LONGEST_PROFILE = 4095
_CONTEXT = (
    "capabilities", "privileged", "seLinuxOptions", "windowsOptions", "runAsUser", "runAsGroup", "runAsNonRoot",
    "readOnlyRootFilesystem", "allowPrivilegeEscalation", "procMount", "seccompProfile", "appArmorProfile",
)  # fmt: skip
_ONLY_RECURSIVE = ("Recursive",)
_POLICIES = {
    "fsGroupChangePolicy": ("Always", "OnRootMismatch"),
    "supplementalGroupsPolicy": ("Merge", "Strict"),
    "seLinuxChangePolicy": ("MountOption", "Recursive"),
}
_PROFILES = ("Localhost", "RuntimeDefault", "Unconfined")
_SYSCTL_FORM = r"^([a-z0-9]([-_a-z0-9]*[a-z0-9])?[\./])*[a-z0-9]([-_a-z0-9]*[a-z0-9])?$"
_SYSCTL = re.compile(_SYSCTL_FORM)
_IPC_SYSCTLS = ("kernel.shm", "kernel.msg", "kernel.sem", "fs.mqueue.")


def check_security_context(context: Json, path: str, errors: list[FieldError], *, host_users: bool) -> None:
    """Check `securityContext` of a container."""
    given = mapping(context)
    _check_ids(given, ("runAsUser", "runAsGroup"), path, errors)
    mount = given.get("procMount")
    check_member(given, "procMount", ("Default", "Unmasked"), path, errors)
    if host_users and mount == "Unmasked":
        errors.append(invalid(f"{path}.procMount", mount, "`hostUsers` must be false to use `Unmasked`"))
    _check_seccomp(given, path, errors)
    if given.get("allowPrivilegeEscalation") is False:
        said = "cannot set `allowPrivilegeEscalation` to false and"
        shown = internal_form(given, _CONTEXT)
        if given.get("privileged") is True:
            errors.append(invalid(path, shown, f"{said} `privileged` to true"))
        if "CAP_SYS_ADMIN" in items(mapping(given.get("capabilities")).get("add")):
            errors.append(invalid(path, shown, f"{said} `capabilities.Add` CAP_SYS_ADMIN"))
    _check_user_and_armour(given, path, errors)


def check_pod_security(spec: Mapping[str, Any], path: str, errors: list[FieldError], options: Options) -> None:
    """Check the security settings in the spec of a pod: `securityContext` and the use of host namespaces."""
    on_network, with_pids = spec.get("hostNetwork") is True, spec.get("hostPID") is True
    context = mapping(spec.get("securityContext"))
    where = f"{path}.securityContext"
    _check_ids(context, ("fsGroup", "runAsUser", "runAsGroup"), where, errors)
    for index, group in enumerate(items(context.get("supplementalGroups"))):
        if not _is_id(group):
            errors.append(invalid(f"{where}.supplementalGroups[{index}]", group, ID_RANGE))
    if spec.get("shareProcessNamespace") is True and with_pids:
        detail = "ShareProcessNamespace and HostPID cannot both be enabled"
        errors.append(invalid(f"{path}.securityContext.shareProcessNamespace", True, detail))
    if not context:
        return
    _check_sysctls(
        context.get("sysctls"), f"{where}.sysctls", errors, on_network=on_network, with_ipc=spec.get("hostIPC") is True
    )
    _check_policies(context, ("fsGroupChangePolicy",), where, errors, options)
    _check_seccomp(context, where, errors)
    _check_user_and_armour(context, where, errors)
    _check_policies(context, ("supplementalGroupsPolicy", "seLinuxChangePolicy"), where, errors, options)


def _check_policies(
    context: Mapping[str, Any], keys: tuple[str, ...], where: str, errors: list[FieldError], options: Options
) -> None:
    for key in keys:
        choices = _ONLY_RECURSIVE if options.current and key == "seLinuxChangePolicy" else _POLICIES[key]
        check_member(context, key, choices, where, errors)


def check_host_ports(spec: Mapping[str, Any], path: str, errors: list[FieldError], options: Options) -> None:
    """Check that a pod on the host network uses the same port numbers on its host as in its containers."""
    if spec.get("hostNetwork") is not True:
        return
    for number, container in mappings(spec.get("containers")):
        for index, port in mappings(container.get("ports")):
            on_host = integer(port.get("hostPort"))
            if (on_host or options.pod_name is not None) and on_host != integer(port.get("containerPort")):
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


def _check_user_and_armour(context: Mapping[str, Any], path: str, errors: list[FieldError]) -> None:
    if (windows := context.get("windowsOptions")) is not None:
        check_windows_options(windows, f"{path}.windowsOptions", errors)
    if (armour := context.get("appArmorProfile")) is not None:
        _check_app_armor(mapping(armour), f"{path}.appArmorProfile", errors)


def _check_seccomp(context: Mapping[str, Any], path: str, errors: list[FieldError]) -> None:
    if context.get("seccompProfile") is None:
        return
    profile, path = mapping(context["seccompProfile"]), f"{path}.seccompProfile"
    kind, file, where = text(profile.get("type")), profile.get("localhostProfile"), f"{path}.localhostProfile"
    if not kind:
        errors.append(required(f"{path}.type", "type is required when seccompProfile is set"))
    elif kind not in _PROFILES:
        errors.append(unsupported(f"{path}.type", kind, _PROFILES))
    if kind != "Localhost":
        if file is not None:
            shown = {"Type": kind, "LocalhostProfile": file}
            errors.append(invalid(where, shown, "can only be set when seccomp type is Localhost"))
    elif file is None:
        errors.append(required(where, "must be set when seccomp type is Localhost"))
    else:
        check_descending(text(file), where, errors)


def _check_app_armor(profile: Mapping[str, Any], path: str, errors: list[FieldError]) -> None:
    kind, file, where = text(profile.get("type")), profile.get("localhostProfile"), f"{path}.localhostProfile"
    if not kind:
        errors.append(required(f"{path}.type", "type is required when appArmorProfile is set"))
    elif kind not in _PROFILES:
        errors.append(unsupported(f"{path}.type", kind, _PROFILES))
    elif kind != "Localhost":
        if file is not None:
            errors.append(invalid(where, file, "can only be set when AppArmor type is Localhost"))
    elif not text(file):
        errors.append(required(where, "must be set when AppArmor type is Localhost"))
    else:
        if file != text(file).strip():
            errors.append(invalid(where, file, "must not be padded with whitespace"))
        if len(text(file)) > _LONGEST_PROFILE:
            errors.append(too_long(where, _LONGEST_PROFILE))
