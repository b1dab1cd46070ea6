"""Rules for the name resolution of a pod."""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Mapping
from typing import Any

from pyroclast.rules.errors import FieldError, invalid, invalid_for, required
from pyroclast.rules.names import dns_subdomain
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
