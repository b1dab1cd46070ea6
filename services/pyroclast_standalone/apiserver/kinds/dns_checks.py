"""How a pod resolves names."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any, Final

from pyroclast_standalone.apiserver.documents import names
from pyroclast_standalone.apiserver.documents.errors import FieldError, invalid, required

from .addresses import check_address
from .checks import named

__all__ = ["check_dns", "check_host_aliases"]

_MOST_SERVERS, _MOST_SEARCHES, _LONGEST_SEARCHES = 3, 32, 2048
_LABEL: Final = "_?[a-z0-9]([-_a-z0-9]*[a-z0-9])?"
_DOMAIN: Final = rf"{_LABEL}(\.{_LABEL})*"
_is_domain = re.compile(_DOMAIN).fullmatch
_DOMAIN_TEXT: Final = names.regex_sentence(
    "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '_', '-' or '.', "
    "and must start and end with an alphanumeric character",
    _DOMAIN,
    "example.com",
)


def _check_search(domain: str, path: str) -> list[FieldError]:
    if domain == ".":
        return []
    domain = domain.removesuffix(".")
    errors = [invalid(path, domain, "must be no more than 253 characters")] if len(domain) > 253 else []
    return errors if _is_domain(domain) else [*errors, invalid(path, domain, _DOMAIN_TEXT)]


def check_dns(spec: Mapping[str, Any], path: str) -> list[FieldError]:
    """What is wrong with the servers, domains and options that a pod brings."""
    config = spec.get("dnsConfig")
    is_alone = spec.get("dnsPolicy") == "None"
    if config is None:
        return [required(f"{path}.dnsConfig", "must provide `dnsConfig` when `dnsPolicy` is None")] if is_alone else []
    own = f"{path}.dnsConfig"
    if is_alone and not config.get("nameservers"):
        return [required(f"{own}.nameservers", "must provide at least one DNS nameserver when `dnsPolicy` is None")]
    servers, searches = config.get("nameservers") or [], config.get("searches") or []
    errors: list[FieldError] = []
    if len(servers) > _MOST_SERVERS:
        errors.append(invalid(f"{own}.nameservers", servers, f"must not have more than {_MOST_SERVERS} nameservers"))
    for index, server in enumerate(servers):
        errors += check_address(server, f"{own}.nameservers[{index}]")
    if len(searches) > _MOST_SEARCHES:
        errors.append(invalid(f"{own}.searches", searches, f"must not have more than {_MOST_SEARCHES} search paths"))
    if len(" ".join(searches)) > _LONGEST_SEARCHES:
        text = f"must not have more than {_LONGEST_SEARCHES} characters (including spaces) in the search list"
        errors.append(invalid(f"{own}.searches", searches, text))
    for index, domain in enumerate(searches):
        errors += _check_search(domain, f"{own}.searches[{index}]")
    nameless = [index for index, option in enumerate(config.get("options") or ()) if not option.get("name")]
    return [*errors, *(required(f"{own}.options[{index}]", "must not be empty") for index in nameless)]


def check_host_aliases(aliases: Sequence[Mapping[str, Any]], path: str) -> list[FieldError]:
    """What is wrong with the addresses that a pod has names for."""
    errors: list[FieldError] = []
    for index, alias in enumerate(aliases):
        errors += check_address(alias.get("ip", ""), f"{path}[{index}].ip")
        for at, name in enumerate(alias.get("hostnames") or ()):
            errors += named(name, names.dns_subdomain, f"{path}[{index}].hostnames[{at}]")
    return errors
