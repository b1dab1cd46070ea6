"""Validation of network policies, ingresses and their classes, in the API's words."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any, Final

from pyroclast_standalone.apiserver.documents import names
from pyroclast_standalone.apiserver.documents.errors import FieldError, forbidden, invalid, required, too_long, unsupported

from .addresses import check_address, check_range, parse_address, parse_range
from .checks import named, optional_choice
from .handlers import check_port
from .job_checks import check_prefixed_path
from .label_selectors import check_selector

__all__ = ["check_ingress", "check_ingress_class", "check_ingress_status", "check_policy", "warn_of_ingress"]

_DIRECTIONS: Final = ("Ingress", "Egress")
_OLD_CLASS: Final = "kubernetes.io/ingress.class"
_SEQUENCES: Final = ("//", "/./", "/../", "%2f", "%2F")
_SUFFIXES: Final = ("/..", "/.")
_PATH_TYPES: Final = ("Exact", "ImplementationSpecific", "Prefix")
_LABEL: Final = "[a-z0-9]([-a-z0-9]*[a-z0-9])?"
_WILDCARD: Final = rf"\*\.{_LABEL}(\.{_LABEL})*"
_is_wildcard = re.compile(_WILDCARD).fullmatch
_WILDCARD_TEXT: Final = names.regex_sentence(
    "a wildcard DNS-1123 subdomain must start with '*.', followed by a valid DNS subdomain, which must consist of lower case "
    "alphanumeric characters, '-' or '.' and end with an alphanumeric character",
    _WILDCARD,
    "*.example.com",
)


def _check_policy_port(port: Mapping[str, Any], path: str) -> list[FieldError]:
    number, end = port.get("port"), port.get("endPort")
    errors = optional_choice(port, "protocol", ("TCP", "UDP", "SCTP"), path)
    if number is None:
        text = "may not be specified when `port` is not specified"
        return errors if end is None else [*errors, invalid(f"{path}.endPort", end, text)]
    if isinstance(number, str):
        if end is not None:
            errors.append(invalid(f"{path}.endPort", end, "may not be specified when `port` is non-numeric"))
        return [*errors, *check_port(number, f"{path}.port")]
    errors += check_port(number, f"{path}.port")
    if end is not None and end < number:
        errors.append(invalid(f"{path}.endPort", number, "must be greater than or equal to `port`"))
    return [*errors, *(check_port(end, f"{path}.endPort") if end is not None else [])]


def _check_block(block: Mapping[str, Any], path: str) -> list[FieldError]:
    cidr = block.get("cidr", "")
    if not cidr:
        return [required(f"{path}.cidr")]
    errors, whole = check_range(cidr, f"{path}.cidr"), parse_range(cidr)
    if whole is None:
        return errors
    for index, text in enumerate(block.get("except") or ()):
        own, part = f"{path}.except[{index}]", parse_range(text)
        errors += check_range(text, own)
        inside = part is not None and part.version == whole.version and part.network_address in whole
        if part is not None and not (inside and part.prefixlen > whole.prefixlen):
            errors.append(invalid(own, text, "must be a strict subset of `cidr`"))
    return errors


def _check_peer(peer: Mapping[str, Any], path: str) -> list[FieldError]:
    errors: list[FieldError] = []
    given = [field for field in ("podSelector", "namespaceSelector", "ipBlock") if peer.get(field) is not None]
    for field in given:
        check = _check_block if field == "ipBlock" else check_selector
        errors += check(peer[field], f"{path}.{field}")
    if not given:
        errors.append(required(path, "must specify a peer"))
    elif len(given) > 1 and "ipBlock" in given:
        errors.append(forbidden(path, "may not specify both ipBlock and another peer"))
    return errors


def check_policy(document: dict[str, Any]) -> list[FieldError]:
    """What is wrong with a network policy."""
    spec = document["spec"]
    errors = check_selector(spec.get("podSelector") or {}, "spec.podSelector")
    for direction, peers in (("ingress", "from"), ("egress", "to")):
        for index, rule in enumerate(spec.get(direction) or ()):
            own = f"spec.{direction}[{index}]"
            for at, port in enumerate(rule.get("ports") or ()):
                errors += _check_policy_port(port, f"{own}.ports[{at}]")
            for at, peer in enumerate(rule.get(peers) or ()):
                errors += _check_peer(peer, f"{own}.{peers}[{at}]")
    kinds = spec.get("policyTypes") or ()
    if len(kinds) > len(_DIRECTIONS):
        return [*errors, invalid("spec.policyTypes", kinds, "may not specify more than two policyTypes")]
    wrong = [(index, kind) for index, kind in enumerate(kinds) if kind not in _DIRECTIONS]
    return [*errors, *(unsupported(f"spec.policyTypes[{index}]", kind, _DIRECTIONS) for index, kind in wrong)]


def _check_host(host: str, path: str) -> list[FieldError]:
    if "*" not in host:
        return named(host, names.dns_subdomain, path)
    errors = [invalid(path, host, "must be no more than 253 characters")] if len(host) > 253 else []
    return errors if _is_wildcard(host) else [*errors, invalid(path, host, _WILDCARD_TEXT)]


def _check_backend(backend: Mapping[str, Any], path: str) -> list[FieldError]:
    resource, service = backend.get("resource"), backend.get("service")
    if resource is not None and service is not None:
        return [invalid(path, "", "cannot set both resource and service backends")]
    if resource is not None:
        return _check_reference(resource, f"{path}.resource")
    if service is None:
        return [invalid(path, "", "resource or service backend is required")]
    name, port = service.get("name", ""), service.get("port") or {}
    errors = named(name, names.dns_label, f"{path}.service.name") if name else [required(f"{path}.service.name")]
    if port.get("name") and port.get("number"):
        errors.append(invalid(path, "", "cannot set both port name & port number"))
    elif port.get("name"):
        errors += check_port(port["name"], f"{path}.service.port.name")
    elif port.get("number"):
        errors += check_port(port["number"], f"{path}.service.port.number")
    else:
        errors.append(required(path, "port name or number is required"))
    return errors


def _check_reference(reference: Mapping[str, Any], path: str) -> list[FieldError]:
    errors: list[FieldError] = []
    if group := reference.get("apiGroup"):
        errors += named(group, names.dns_subdomain, f"{path}.apiGroup")
    for field in ("kind", "name"):
        value, own = reference.get(field, ""), f"{path}.{field}"
        errors += named(value, names.path_segment, own) if value else [required(own)]
    return errors


def _check_path(rule: Mapping[str, Any], path: str) -> list[FieldError]:
    kind, target, own = rule.get("pathType"), rule.get("path", ""), f"{path}.path"
    if kind is None:
        return [required(f"{path}.pathType", "pathType must be specified")]
    errors: list[FieldError] = []
    if kind not in _PATH_TYPES:
        errors.append(unsupported(f"{path}.pathType", kind, _PATH_TYPES))
    elif not target.startswith("/") and (target or kind != "ImplementationSpecific"):
        errors.append(invalid(own, target, "must be an absolute path"))
    if kind in {"Exact", "Prefix"}:
        errors += [invalid(own, target, f"must not contain '{each}'") for each in _SEQUENCES if each in target]
        errors += [invalid(own, target, f"cannot end with '{each}'") for each in _SUFFIXES if target.endswith(each)]
    return [*errors, *_check_backend(rule.get("backend") or {}, f"{path}.backend")]


def _check_rules(rules: Sequence[Mapping[str, Any]]) -> list[FieldError]:
    errors: list[FieldError] = []
    for index, rule in enumerate(rules):
        own, host, http = f"spec.rules[{index}]", rule.get("host", ""), rule.get("http")
        if host and parse_address(host) is not None:
            errors.append(invalid(f"{own}.host", host, "must be a DNS name, not an IP address"))
        errors += _check_host(host, f"{own}.host") if host else []
        if http is None:
            continue
        paths = http.get("paths") or ()
        errors += [] if paths else [required(f"{own}.http.paths")]
        for at, path in enumerate(paths):
            errors += _check_path(path, f"{own}.http.paths[{at}]")
    return errors


def check_ingress(document: dict[str, Any], *, is_new: bool = True) -> list[FieldError]:
    """What is wrong with an ingress."""
    spec, errors = document["spec"], []
    if not spec.get("rules") and spec.get("defaultBackend") is None:
        errors.append(invalid("spec", spec.get("rules"), "either `defaultBackend` or `rules` must be specified"))
    if (backend := spec.get("defaultBackend")) is not None:
        errors += _check_backend(backend, "spec.defaultBackend")
    errors += _check_rules(spec.get("rules") or ())
    for index, tls in enumerate(spec.get("tls") or ()):
        own = f"spec.tls[{index}]"
        for at, host in enumerate(tls.get("hosts") or ()):
            errors += _check_host(host, f"{own}.hosts[{at}]")
        if secret := tls.get("secretName"):
            errors += named(secret, names.dns_subdomain, f"{own}.secretName")
    if (name := spec.get("ingressClassName")) is not None:
        errors += named(name, names.dns_subdomain, "spec.ingressClassName")
    old_way = (document["metadata"].get("annotations") or {}).get(_OLD_CLASS)
    if is_new and old_way is not None and name is not None and old_way != name:
        text = "must match `ingressClassName` when both are specified"
        errors.append(invalid(f"annotations.{_OLD_CLASS}", old_way, text))
    return errors


def check_ingress_status(new: dict[str, Any], _old: dict[str, Any]) -> list[FieldError]:
    """What is wrong with the addresses that a balancer reports."""
    errors: list[FieldError] = []
    for index, entry in enumerate(((new.get("status") or {}).get("loadBalancer") or {}).get("ingress") or ()):
        own, name = f"status.loadBalancer.ingress[{index}]", entry.get("hostname", "")
        errors += check_address(entry["ip"], f"{own}.ip") if entry.get("ip") else []
        errors += named(name, names.dns_subdomain, f"{own}.hostname") if name else []
        if name and parse_address(name) is not None:
            errors.append(invalid(f"{own}.hostname", name, "must be a DNS name, not an IP address"))
    return errors


def warn_of_ingress(document: Mapping[str, Any], old: Mapping[str, Any] | None) -> list[str]:
    """An annotation of the time before there was a field."""
    if old is not None or _OLD_CLASS not in (document["metadata"].get("annotations") or {}):
        return []
    return [f"annotation \"{_OLD_CLASS}\" is deprecated, please use 'spec.ingressClassName' instead"]


def check_ingress_class(document: dict[str, Any]) -> list[FieldError]:
    """What is wrong with a class of ingresses."""
    spec = document["spec"]
    controller, parameters = spec.get("controller", ""), spec.get("parameters")
    errors = check_prefixed_path(controller, "spec.controller")
    if len(controller) > 250:
        errors.append(too_long("spec.controller", 250))
    if parameters is None:
        return errors
    own, scope, namespace = "spec.parameters", parameters.get("scope"), parameters.get("namespace")
    errors += [*_check_reference(parameters, own), *optional_choice(parameters, "scope", ("Cluster", "Namespace"), own)]
    if scope == "Namespace" and not namespace:
        errors.append(required(f"{own}.namespace", "`parameters.scope` is set to 'Namespace'"))
    if scope == "Cluster" and namespace is not None:
        errors.append(forbidden(f"{own}.namespace", "`parameters.scope` is set to 'Cluster'"))
    return errors
