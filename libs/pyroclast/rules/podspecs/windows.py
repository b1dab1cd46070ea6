"""Rules for the Windows options of containers: credentials, user, and host processes."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

from pyroclast.rules.errors import FieldError, invalid, invalid_for
from pyroclast.rules.names import dns_subdomain
from pyroclast.rules.podspecs.annotations import containers_of
from pyroclast.rules.values import Json, mapping, text

_LARGEST_SPEC = 64 * 1024
_LONGEST_DOMAIN, _LONGEST_USER = 255, 104
_CONTROL = re.compile(r"[\x00-\x1f\x7f]")
_NET_BIOS = re.compile(r'[^\\/:*?"<>|.][^\\/:*?"<>|]{0,14}')
_DOTS_ONLY = re.compile(r"[. ]+")
_NOT_IN_USERS = re.compile(r'["/\\:;|=,+*?<>@\[\]]')


def check_windows_options(options: Json, path: str, errors: list[FieldError]) -> None:
    """Check `windowsOptions` of a pod or container, at `path`."""
    given = mapping(options)
    if (name := given.get("gmsaCredentialSpecName")) is not None:
        errors += invalid_for(f"{path}.gmsaCredentialSpecName", name, dns_subdomain(text(name)))
    if (spec := given.get("gmsaCredentialSpec")) is not None:
        if not spec:
            errors.append(invalid(f"{path}.gmsaCredentialSpec", spec, "gmsaCredentialSpec cannot be an empty string"))
        elif len(text(spec).encode(errors="replace")) > _LARGEST_SPEC:
            errors.append(invalid(f"{path}.gmsaCredentialSpec", spec, "gmsaCredentialSpec size must be under 64 KiB"))
    if (user := given.get("runAsUserName")) is not None:
        errors += invalid_for(f"{path}.runAsUserName", user, (f"runAsUserName{problem}" for problem in _of_user(text(user))))


def _of_user(name: str) -> Iterator[str]:
    domain, separator, user = name.rpartition("\\")
    if not name:
        yield " cannot be an empty string"
    elif _CONTROL.search(name):
        yield " cannot contain control characters"
    elif "\\" in domain:
        yield " cannot contain more than one backslash"
    else:
        if len(domain) > _LONGEST_DOMAIN:
            yield f"'s Domain length must be under {_LONGEST_DOMAIN + 1} characters"
        if separator and not _NET_BIOS.fullmatch(domain) and dns_subdomain(domain):
            yield "'s Domain doesn't match the NetBios nor the DNS format"
        if not user:
            yield "'s User cannot be empty"
        elif len(user) > _LONGEST_USER:
            yield f"'s User length must not be longer than {_LONGEST_USER} characters"
        if _DOTS_ONLY.fullmatch(user):
            yield "'s User cannot contain only periods or spaces"
        if _NOT_IN_USERS.search(user):
            yield r"""'s User cannot contain the following characters: "/\:;|=,+*?<>@[]"""


def check_host_process(spec: Mapping[str, Any], path: str, errors: list[FieldError]) -> None:
    """Check that either all containers of a pod are host processes or none is, and that host processes use the host network."""
    containers = list(containers_of(spec, path))
    if not any("securityContext" in holder for holder in (spec, *(each for _, each in containers))):
        return
    of_pod = _host_process(spec)
    on_host = []
    for where, container in containers:
        own = _host_process(container)
        if of_pod is not None and own is not None and of_pod is not own:
            detail = f"pod hostProcess value must be identical if both are specified, was {str(of_pod).lower()}"
            errors.append(invalid(f"{where}.securityContext.windowsOptions.hostProcess", own, detail))
        on_host.append(of_pod if own is None else own)
    if not any(on_host):
        return
    if not all(on_host):
        detail = "If pod contains any hostProcess containers then all containers must be HostProcess containers"
        errors.append(invalid(path, "", detail))
    if spec.get("hostNetwork") is not True:
        errors.append(
            invalid(f"{path}.hostNetwork", False, "hostNetwork must be true if pod contains any hostProcess containers")
        )


def _host_process(holder: Mapping[str, Any]) -> bool | None:
    options = mapping(mapping(holder.get("securityContext")).get("windowsOptions"))
    value = options.get("hostProcess")
    return value if isinstance(value, bool) else None
