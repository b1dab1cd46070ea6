"""What only pods on Windows have, and what they do not have."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

from pyroclast_standalone.apiserver.documents import names
from pyroclast_standalone.apiserver.documents.errors import FieldError, forbidden, invalid

from .checks import named

__all__ = ["check_windows_options", "check_windows_pod", "check_windows_processes"]

_LONGEST_SPEC: Final = 64 * 1024
_CONTROL: Final = re.compile(r"[\x00-\x1f\x7f]")
_NET_BIOS: Final = re.compile(r'[^\\/:*?"<>|.][^\\/:*?"<>|]{0,14}')
_LABEL: Final = "[a-zA-Z0-9](?:[a-zA-Z0-9-]{0,61}[a-zA-Z0-9])?"
_DOMAIN: Final = re.compile(rf"{_LABEL}(?:\.{_LABEL})*")
_NOT_IN_NAMES: Final = re.compile(r'["/\\:;|=,+*?<>@\[\]]')
_DOTS: Final = re.compile(r"[. ]+")
_NOT_OF_POD: Final = (
    ("securityContext", "appArmorProfile"),
    ("securityContext", "seLinuxOptions"),
    ("", "hostUsers"),
    ("", "hostPID"),
    ("", "hostIPC"),
    ("securityContext", "seccompProfile"),
    ("securityContext", "fsGroup"),
    ("securityContext", "fsGroupChangePolicy"),
    ("securityContext", "sysctls"),
    ("", "shareProcessNamespace"),
    ("securityContext", "runAsUser"),
    ("securityContext", "runAsGroup"),
    ("securityContext", "supplementalGroups"),
    ("securityContext", "supplementalGroupsPolicy"),
    ("securityContext", "seLinuxChangePolicy"),
)
_FALSE_IS_NONE: Final = {"hostPID", "hostIPC"}
_NOT_OF_CONTAINERS: Final = (
    "appArmorProfile",
    "seLinuxOptions",
    "seccompProfile",
    "capabilities",
    "readOnlyRootFilesystem",
    "privileged",
    "allowPrivilegeEscalation",
    "procMount",
    "runAsUser",
    "runAsGroup",
)
_NOT_HERE: Final = "cannot be set for a windows pod"


def _check_user(name: str) -> list[str]:
    if not name:
        return ["runAsUserName cannot be an empty string"]
    if _CONTROL.search(name):
        return ["runAsUserName cannot contain control characters"]
    parts = name.split("\\")
    if len(parts) > 2:
        return ["runAsUserName cannot contain more than one backslash"]
    domain, user = parts[0] if len(parts) == 2 else "", parts[-1]
    found: list[str] = []
    if len(domain) >= 256:
        found.append("runAsUserName's Domain length must be under 256 characters")
    if len(parts) == 2 and not _NET_BIOS.fullmatch(domain) and not _DOMAIN.fullmatch(domain):
        found.append("runAsUserName's Domain doesn't match the NetBios nor the DNS format")
    if not user:
        found.append("runAsUserName's User cannot be empty")
    elif len(user) > 104:
        found.append("runAsUserName's User length must not be longer than 104 characters")
    if _DOTS.fullmatch(user):
        found.append("runAsUserName's User cannot contain only periods or spaces")
    if _NOT_IN_NAMES.search(user):
        found.append("runAsUserName's User cannot contain the following characters: \"/\\:;|=,+*?<>@[]")
    return found


def check_windows_options(options: Mapping[str, Any] | None, path: str) -> list[FieldError]:
    """What is wrong with the options of a security context that are for Windows."""
    errors: list[FieldError] = []
    if options is None:
        return errors
    if (name := options.get("gmsaCredentialSpecName")) is not None:
        errors += named(name, names.dns_subdomain, f"{path}.gmsaCredentialSpecName")
    if (spec := options.get("gmsaCredentialSpec")) is not None:
        if not spec:
            errors.append(invalid(f"{path}.gmsaCredentialSpec", spec, "gmsaCredentialSpec cannot be an empty string"))
        elif len(spec) > _LONGEST_SPEC:
            errors.append(invalid(f"{path}.gmsaCredentialSpec", spec, "gmsaCredentialSpec size must be under 64 KiB"))
    if (name := options.get("runAsUserName")) is not None:
        errors += [invalid(f"{path}.runAsUserName", name, text) for text in _check_user(name)]
    return errors


def check_windows_processes(
    spec: Mapping[str, Any], path: str, containers: Sequence[tuple[str, Mapping[str, Any]]]
) -> list[FieldError]:
    """What is wrong with containers that are processes of their Windows host."""

    def of_host(holder: Mapping[str, Any]) -> bool | None:
        return ((holder.get("securityContext") or {}).get("windowsOptions") or {}).get("hostProcess")

    errors: list[FieldError] = []
    whole, count = of_host(spec), 0
    for own, container in containers:
        given = of_host(container)
        if None not in {whole, given} and whole is not given:
            text = f"pod hostProcess value must be identical if both are specified, was {'true' if whole else 'false'}"
            errors.append(invalid(f"{own}.securityContext.windowsOptions.hostProcess", given, text))
        count += bool(whole if given is None else given)
    if not count:
        return errors
    if count != len(containers):
        text = "If pod contains any hostProcess containers then all containers must be HostProcess containers"
        errors.append(invalid(path, "", text))
    if not spec.get("hostNetwork"):
        text = "hostNetwork must be true if pod contains any hostProcess containers"
        errors.append(invalid(f"{path}.hostNetwork", value=False, detail=text))
    return errors


def check_windows_pod(
    spec: Mapping[str, Any], path: str, containers: Iterable[tuple[str, Mapping[str, Any]]]
) -> list[FieldError]:
    """The fields of a pod and its containers that Windows does not have."""
    errors: list[FieldError] = []
    for parent, field in _NOT_OF_POD:
        holder = (spec.get(parent) or {}) if parent else spec
        if holder.get(field) is not None and (holder[field] or field not in _FALSE_IS_NONE):
            errors.append(forbidden(".".join(filter(None, (path, parent, field))), _NOT_HERE))
    for own, container in containers:
        context = container.get("securityContext") or {}
        errors += [forbidden(f"{own}.securityContext.{field}", _NOT_HERE) for field in _NOT_OF_CONTAINERS if field in context]
    return errors
