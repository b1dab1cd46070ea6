"""Security contexts of pods and containers, and what the operating system of a pod allows."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from pyroclast_standalone.apiserver.documents import names
from pyroclast_standalone.apiserver.documents.errors import (
    FieldError,
    duplicate,
    forbidden,
    invalid,
    required,
    too_long,
    unsupported,
)

from .checks import named, optional_choice
from .internals import internal_form
from .paths import check_descending
from .windows import check_windows_options, check_windows_pod, check_windows_processes

__all__ = ["check_context", "check_host_name", "check_host_users", "check_os", "check_pod_context", "containers_of_pod"]

_SYSCTL: Final = re.compile(r"([a-z0-9]([-_a-z0-9]*[a-z0-9])?[\./])*[a-z0-9]([-_a-z0-9]*[a-z0-9])?")
_SYSCTL_TEXT: Final = (
    r"must have at most 253 characters and match regex ^([a-z0-9]([-_a-z0-9]*[a-z0-9])?[\./])*[a-z0-9]([-_a-z0-9]*[a-z0-9])?$"
)
_CONTAINERS: Final = ("initContainers", "containers", "ephemeralContainers")
_PROFILES: Final = ("Localhost", "RuntimeDefault", "Unconfined")
_IPC_SYSCTLS: Final = ("kernel.shm", "kernel.msg", "kernel.sem", "fs.mqueue.")
_LONGEST_PROFILE: Final = 4095
_CONTEXT: Final = (
    "capabilities",
    "privileged",
    "seLinuxOptions",
    "windowsOptions",
    "runAsUser",
    "runAsGroup",
    "runAsNonRoot",
    "readOnlyRootFilesystem",
    "allowPrivilegeEscalation",
    "procMount",
    "seccompProfile",
    "appArmorProfile",
)


def containers_of_pod(spec: Mapping[str, Any], path: str) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """Every container of a pod with where it stands, in the order in which they start."""
    for field in _CONTAINERS:
        for index, container in enumerate(spec.get(field) or ()):
            yield f"{path}.{field}[{index}]", container


def _check_ids(holder: Mapping[str, Any], fields: Sequence[str], path: str) -> list[FieldError]:
    return [
        invalid(f"{path}.{field}", value, "must be between 0 and 2147483647, inclusive")
        for field in fields
        if (value := holder.get(field)) is not None and not 0 <= value < 2**31
    ]


def _check_seccomp(profile: Mapping[str, Any] | None, path: str) -> list[FieldError]:
    if profile is None:
        return []
    kind, local = profile.get("type", ""), profile.get("localhostProfile")
    errors: list[FieldError] = []
    if not kind:
        errors.append(required(f"{path}.type", "type is required when seccompProfile is set"))
    elif kind not in _PROFILES:
        errors.append(unsupported(f"{path}.type", kind, _PROFILES))
    if kind != "Localhost":
        if local is not None:
            shown = {"Type": kind, "LocalhostProfile": local}
            errors.append(invalid(f"{path}.localhostProfile", shown, "can only be set when seccomp type is Localhost"))
    elif local is None:
        errors.append(required(f"{path}.localhostProfile", "must be set when seccomp type is Localhost"))
    else:
        errors += check_descending(local, f"{path}.localhostProfile")
    return errors


def _check_app_armor(profile: Mapping[str, Any] | None, path: str) -> list[FieldError]:
    if profile is None:
        return []
    kind, own = profile.get("type", ""), f"{path}.localhostProfile"
    local: str | None = profile.get("localhostProfile")
    match kind:
        case "Localhost":
            if not local:
                return [required(own, "must be set when AppArmor type is Localhost")]
            errors = [invalid(own, local, "must not be padded with whitespace")] if local != local.strip() else []
            return [*errors, too_long(own, _LONGEST_PROFILE)] if len(local) > _LONGEST_PROFILE else errors
        case "RuntimeDefault" | "Unconfined":
            return [] if local is None else [invalid(own, local, "can only be set when AppArmor type is Localhost")]
        case "":
            return [required(f"{path}.type", "type is required when appArmorProfile is set")]
        case _:
            return [unsupported(f"{path}.type", kind, _PROFILES)]


def _host_namespace(name: str, spec: Mapping[str, Any]) -> str:
    """The field by which a pod has the namespace of its node that this parameter belongs to."""
    plain = name.replace("/", ".") if "." not in name.partition("/")[0] else name
    if spec.get("hostNetwork") and plain.startswith("net."):
        return "hostNetwork"
    return "hostIPC" if spec.get("hostIPC") and plain.startswith(_IPC_SYSCTLS) else ""


def _check_sysctls(context: Mapping[str, Any], spec: Mapping[str, Any], path: str) -> list[FieldError]:
    errors: list[FieldError] = []
    seen: set[str] = set()
    for index, each in enumerate(context.get("sysctls") or ()):
        name, own = each.get("name", ""), f"{path}.sysctls[{index}].name"
        if not name:
            errors.append(required(own))
        elif len(name) > 253 or not _SYSCTL.fullmatch(name):
            errors.append(invalid(own, name, _SYSCTL_TEXT))
        elif name in seen:
            errors.append(duplicate(own, name))
        if field := _host_namespace(name, spec):
            errors.append(invalid(own, name, f"may not be specified when '{field}' is true"))
        seen.add(name)
    return errors


def check_pod_context(spec: Mapping[str, Any], path: str) -> list[FieldError]:
    """What is wrong with the security context of a pod."""
    context = spec.get("securityContext") or {}
    if not context and not spec.get("shareProcessNamespace"):
        return []
    own = f"{path}.securityContext"
    errors = _check_ids(context, ("fsGroup", "runAsUser", "runAsGroup"), own)
    errors += [
        invalid(f"{own}.supplementalGroups[{index}]", group, "must be between 0 and 2147483647, inclusive")
        for index, group in enumerate(context.get("supplementalGroups") or ())
        if not 0 <= group < 2**31
    ]
    if spec.get("shareProcessNamespace") and spec.get("hostPID"):
        text = "ShareProcessNamespace and HostPID cannot both be enabled"
        errors.append(invalid(f"{own}.shareProcessNamespace", spec["shareProcessNamespace"], text))
    if "sysctls" in context:
        errors += _check_sysctls(context, spec, own)
    errors += optional_choice(context, "fsGroupChangePolicy", ("Always", "OnRootMismatch"), own)
    errors += _check_seccomp(context.get("seccompProfile"), f"{own}.seccompProfile")
    errors += check_windows_options(context.get("windowsOptions"), f"{own}.windowsOptions")
    errors += _check_app_armor(context.get("appArmorProfile"), f"{own}.appArmorProfile")
    errors += optional_choice(context, "supplementalGroupsPolicy", ("Merge", "Strict"), own)
    errors += optional_choice(context, "seLinuxChangePolicy", ("Recursive",), own)
    return errors


def check_context(context: Mapping[str, Any], path: str, *, host_users: bool) -> list[FieldError]:
    """What is wrong with the security context of a container."""
    errors = _check_ids(context, ("runAsUser", "runAsGroup"), path)
    errors += optional_choice(context, "procMount", ("Default", "Unmasked"), path)
    if host_users and context.get("procMount") == "Unmasked":
        errors.append(invalid(f"{path}.procMount", "Unmasked", "`hostUsers` must be false to use `Unmasked`"))
    errors += _check_seccomp(context.get("seccompProfile"), f"{path}.seccompProfile")
    if context.get("allowPrivilegeEscalation") is False:
        text = "cannot set `allowPrivilegeEscalation` to false and "
        if context.get("privileged"):
            errors.append(invalid(path, internal_form(context, _CONTEXT), f"{text}`privileged` to true"))
        added = (context.get("capabilities") or {}).get("add") or ()
        if "CAP_SYS_ADMIN" in added:
            errors.append(invalid(path, internal_form(context, _CONTEXT), f"{text}`capabilities.Add` CAP_SYS_ADMIN"))
    errors += check_windows_options(context.get("windowsOptions"), f"{path}.windowsOptions")
    errors += _check_app_armor(context.get("appArmorProfile"), f"{path}.appArmorProfile")
    return errors


def check_os(spec: Mapping[str, Any], path: str) -> list[FieldError]:
    """What is wrong with the operating system of a pod, and with what it does not have."""
    system = spec.get("os")
    if system is None:
        return []
    name = system.get("name", "")
    if not name:
        return [required(f"{path}.os.name")]
    if name == "windows":
        return check_windows_pod(spec, path, containers_of_pod(spec, path))
    if name != "linux":
        return [unsupported(f"{path}.os", name, ["linux", "windows"])]
    text = "windows options cannot be set for a linux pod"
    holders = [(path, spec), *containers_of_pod(spec, path)]
    return [
        forbidden(f"{own}.securityContext.windowsOptions", text)
        for own, holder in holders
        if (holder.get("securityContext") or {}).get("windowsOptions") is not None
    ]


def check_host_users(spec: Mapping[str, Any], path: str) -> list[FieldError]:
    """Processes of a Windows host, and what a pod with users of its own may not have of its node."""
    errors = check_windows_processes(spec, path, list(containers_of_pod(spec, path))) if _names_windows(spec) else []
    if spec.get("hostUsers", True):
        return errors
    text = "when `hostUsers` is false"
    for field, shown in (("hostNetwork", "hostNetwork"), ("hostPID", "HostPID"), ("hostIPC", "HostIPC")):
        if spec.get(field):
            errors.append(forbidden(f"{path}.{shown}", text))
    for own, container in containers_of_pod(spec, path):
        if container.get("volumeDevices"):
            errors.append(forbidden(f"{own}.volumeDevices", text))
    return errors


def _names_windows(spec: Mapping[str, Any]) -> bool:
    """Whether a pod or one of its containers has options for Windows."""
    if "windowsOptions" in (spec.get("securityContext") or ()):
        return True
    for field in _CONTAINERS:
        for container in spec.get(field) or ():
            if "windowsOptions" in (container.get("securityContext") or ()):
                return True
    return False


def check_host_name(spec: Mapping[str, Any], path: str) -> list[FieldError]:
    """What is wrong with a host name that is not the pod's."""
    name = spec.get("hostnameOverride")
    if name is None:
        return []
    own = f"{path}.hostnameOverride"
    errors = [
        forbidden(own, f"may not be specified when {field} is true")
        for field in ("setHostnameAsFQDN", "hostNetwork")
        if spec.get(field)
    ]
    if len(name) > 64:
        errors.append(too_long(own, 64))
    return [*errors, *named(name, names.dns_subdomain, own)]
