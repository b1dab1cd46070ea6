"""Rules for the operating system of a pod, its user namespace and its DNS."""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Iterator, Mapping
from typing import Any

from pyroclast.rules.errors import FieldError, forbidden, invalid, invalid_for, required, unsupported
from pyroclast.rules.names import dns_subdomain
from pyroclast.rules.podspecs.annotations import containers_of
from pyroclast.rules.podspecs.options import Options
from pyroclast.rules.values import Json, mapping, mappings, string_items, text

MAX_NAMESERVERS = 3
_LEADING_ZEROS = re.compile(r"(?:(?<=^)|(?<=\.))0+(?=\d)", re.ASCII)
_BAD_ADDRESS = "must be a valid IP address, (e.g. 10.9.8.7 or 2001:db8::ffff)"
MAX_SEARCHES = 32
MAX_SEARCH_CHARACTERS = 2048
LONGEST_SEARCH = 253

DNS_POLICIES = ("ClusterFirstWithHostNet", "ClusterFirst", "Default", "None")
_SEARCH = re.compile(r"_?[a-z0-9]([-_a-z0-9]*[a-z0-9])?(\._?[a-z0-9]([-_a-z0-9]*[a-z0-9])?)*")
_BAD_SEARCH = (
    "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '_', '-' or '.', and must start and "
    "end with an alphanumeric character (e.g. 'example.com', regex used for validation is "
    f"'{_SEARCH.pattern}')"
)


def check_dns(spec: Mapping[str, Any], path: str, errors: list[FieldError], options: Options) -> None:
    """Check `dnsConfig` of the pod at `path`."""
    policy, config = spec.get("dnsPolicy"), spec.get("dnsConfig")
    if policy == "None":
        if config is None:
            errors.append(required(f"{path}.dnsConfig", "must provide `dnsConfig` when `dnsPolicy` is None"))
            return
        if not mapping(config).get("nameservers"):
            detail = "must provide at least one DNS nameserver when `dnsPolicy` is None"
            errors.append(required(f"{path}.dnsConfig.nameservers", detail))
            return
    if config is not None:
        _check_config(mapping(config), f"{path}.dnsConfig", errors, options)


def check_aliases(aliases: Json, path: str, errors: list[FieldError]) -> None:
    """Check `hostAliases` of a pod, at `path`."""
    for index, alias in mappings(aliases):
        where, address = f"{path}[{index}]", text(alias.get("ip"))
        check_address(address, f"{where}.ip", errors)
        for position, name in enumerate(string_items(alias.get("hostnames"))):
            errors += invalid_for(f"{where}.hostnames[{position}]", name, dns_subdomain(name))


def _check_config(config: Mapping[str, Any], path: str, errors: list[FieldError], options: Options) -> None:
    servers, searches = string_items(config.get("nameservers")), string_items(config.get("searches"))
    if len(servers) > MAX_NAMESERVERS:
        errors.append(invalid(f"{path}.nameservers", servers, f"must not have more than {MAX_NAMESERVERS} nameservers"))
    for index, server in enumerate(servers):
        check_address(server, f"{path}.nameservers[{index}]", errors)
    if len(searches) > MAX_SEARCHES:
        errors.append(invalid(f"{path}.searches", searches, f"must not have more than {MAX_SEARCHES} search paths"))
    if len(" ".join(searches)) > MAX_SEARCH_CHARACTERS:
        detail = f"must not have more than {MAX_SEARCH_CHARACTERS} characters (including spaces) in the search list"
        errors.append(invalid(f"{path}.searches", searches, detail))
    for index, search in enumerate(searches):
        if not options.current:
            name = search.removesuffix(".")
            errors += invalid_for(f"{path}.searches[{index}]", name, dns_subdomain(name))
            continue
        name = search.removesuffix(".") if search != "." else ""
        if len(name) > LONGEST_SEARCH:
            errors.append(invalid(f"{path}.searches[{index}]", name, f"must be no more than {LONGEST_SEARCH} characters"))
        if search != "." and not _SEARCH.fullmatch(name):
            errors.append(invalid(f"{path}.searches[{index}]", name, _BAD_SEARCH))
    for index, option in mappings(config.get("options")):
        if not option.get("name"):
            errors.append(required(f"{path}.options[{index}]", "must not be empty"))


def check_address(address: str, path: str, errors: list[FieldError]) -> None:
    """Check an IP address at `path`; it must be in an unambiguous form."""
    try:
        found = ipaddress.ip_address(_LEADING_ZEROS.sub("", address) if ":" not in address else address)
    except ValueError:
        errors.append(invalid(path, address, _BAD_ADDRESS))
        return
    if found.version == 4 and _LEADING_ZEROS.search(address):
        errors.append(invalid(path, address, "must not have leading 0s"))
    if found.version == 6 and found.ipv4_mapped is not None:
        errors.append(invalid(path, address, "must not be an IPv4-mapped IPv6 address"))


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
