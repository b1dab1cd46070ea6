"""Validation of Services with a cluster IP, headless Services, and Services with an external name.

Services of other types are stored without these checks.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Mapping, Sequence
from typing import Any, Final

from pyroclast.rules import names
from pyroclast.rules.errors import FieldError, duplicate, forbidden, invalid, required
from pyroclast.rules.podspecs.dns import check_address
from pyroclast.rules.podspecs.probes import check_port
from pyroclast_standalone.apiserver.documents.metadata import check_labels
from pyroclast_standalone.apiserver.kinds.checks import choice, named

CLUSTER_RANGE: Final = ipaddress.IPv4Network("10.96.0.0/12")
_TYPES: Final = ("ClusterIP", "ExternalName", "LoadBalancer", "NodePort")
_PROTOCOLS: Final = ("SCTP", "TCP", "UDP")
_ONCE: Final = "may not change once set"


def is_headless(spec: Mapping[str, Any]) -> bool:
    """Return whether the Service explicitly has no cluster IP."""
    return (spec.get("clusterIPs") or [spec.get("clusterIP")]) == ["None"]


def _check_ports(ports: Sequence[Mapping[str, Any]], path: str) -> list[FieldError]:
    errors: list[FieldError] = []
    seen: set[str] = set()
    pairs: set[tuple[Any, Any]] = set()
    for index, port in enumerate(ports):
        own = f"{path}[{index}]"
        name = port.get("name", "")
        if not name and len(ports) > 1:
            errors.append(required(f"{own}.name"))
        elif name:
            errors += named(name, names.dns_label, f"{own}.name")
            if name in seen:
                errors.append(duplicate(f"{own}.name", name))
            seen.add(name)
        number, protocol = port.get("port", 0), port.get("protocol")
        if not 1 <= number <= 65535:
            errors.append(invalid(f"{own}.port", number, "must be between 1 and 65535, inclusive"))
        errors += choice(port, "protocol", _PROTOCOLS, own)
        check_port(port.get("targetPort"), f"{own}.targetPort", errors)
        if (protocol, number) in pairs:
            errors.append(duplicate(own, {"protocol": protocol, "port": number}))
        pairs.add((protocol, number))
    return errors


def _check_addresses(spec: Mapping[str, Any]) -> list[FieldError]:
    own, many = spec.get("clusterIP", ""), spec.get("clusterIPs") or []
    errors: list[FieldError] = []
    if own and many and many[0] != own:
        errors.append(invalid("spec.clusterIPs", many, "first value must match `clusterIP`"))
    if not own and many:
        errors.append(invalid("spec.clusterIPs", many, "must be empty when `clusterIP` is not specified"))
    for index, address in enumerate(many):
        if index or address != "None":
            check_address(address, f"spec.clusterIPs[{index}]", errors)
    return errors


def _check_allocation(spec: Mapping[str, Any]) -> list[FieldError]:
    """Return errors for addresses that this cluster cannot allocate: it only has IPv4 addresses of one range."""
    if spec.get("type") == "ExternalName" or (is_headless(spec) and not spec.get("selector")):
        return []
    for index, family in enumerate(spec.get("ipFamilies") or ()):
        if family != "IPv4":
            return [invalid(f"spec.ipFamilies[{index}]", family, "not configured on this cluster")]
    address = spec.get("clusterIP", "None")
    if address != "None" and ipaddress.ip_address(address) not in CLUSTER_RANGE:
        why = f"the provided IP ({address}) is not in the valid range. The range of valid IPs is {CLUSTER_RANGE}"
        return [invalid("spec.clusterIPs", spec["clusterIPs"], f"failed to allocate IP {address}: {why}")]
    return []


def check_service(document: dict[str, Any]) -> list[FieldError]:
    """Return the faults of a Service. Without any, return errors for addresses that cannot be allocated."""
    return _check_service(document["spec"]) or _check_allocation(document["spec"])


def _check_service(spec: Mapping[str, Any]) -> list[FieldError]:
    kind = spec.get("type")
    errors: list[FieldError] = []
    if not spec.get("ports") and not is_headless(spec) and kind != "ExternalName":
        errors.append(required("spec.ports"))
    if is_headless(spec) and kind in {"NodePort", "LoadBalancer"}:
        errors.append(invalid("spec.clusterIPs[0]", "None", f"may not be set to 'None' for {kind} services"))
    if kind == "ExternalName":
        name = spec.get("externalName", "").removesuffix(".")
        text = "may not be set for ExternalName services"
        given = (field for field in ("clusterIPs", "ipFamilies", "ipFamilyPolicy") if spec.get(field))
        errors += [forbidden(f"spec.{field}", text) for field in given]
        errors += named(name, names.dns_subdomain, "spec.externalName") if name else [required("spec.externalName")]
    errors += _check_ports(spec.get("ports") or (), "spec.ports")
    errors += check_labels(spec.get("selector"), "spec.selector")
    errors += choice(spec, "sessionAffinity", ("ClientIP", "None"), "spec")
    errors += [] if kind == "ExternalName" else _check_addresses(spec)
    errors += choice(spec, "type", _TYPES, "spec")
    return errors


def check_service_update(new: dict[str, Any], old: dict[str, Any]) -> list[FieldError]:
    """Return the faults of a change of a Service: its cluster IP may not change."""
    spec, before = new["spec"], old["spec"]
    errors: list[FieldError] = []
    if "ExternalName" not in {spec.get("type"), before.get("type")}:
        own, theirs = spec.get("clusterIPs") or [], before.get("clusterIPs") or []
        if theirs and not own:
            errors.append(invalid("spec.clusterIPs[0]", own, "primary clusterIP can not be unset"))
        elif own[:1] != theirs[:1]:
            errors.append(invalid("spec.clusterIPs[0]", own, _ONCE))
    errors += _check_service(spec)
    return errors or _check_allocation(spec)
