"""Validation of services, in the API's words."""

from __future__ import annotations

import ipaddress
from collections.abc import Mapping, Sequence
from typing import Any, Final

from pyroclast_standalone.apiserver.documents import names
from pyroclast_standalone.apiserver.documents.errors import FieldError, duplicate, forbidden, invalid, required, unsupported
from pyroclast_standalone.apiserver.documents.metadata import check_labels

from .addresses import check_address, check_endpoint_address, check_range, is_ipv4, parse_address
from .checks import choice, named, optional_choice
from .handlers import check_port

__all__ = [
    "CLUSTER_RANGE",
    "check_service",
    "check_service_status",
    "check_service_update",
    "is_headless",
    "is_reachable",
    "needs_health_check",
]

CLUSTER_RANGE: Final = ipaddress.IPv4Network("10.96.0.0/12")
_TYPES: Final = ("ClusterIP", "ExternalName", "LoadBalancer", "NodePort")
_PROTOCOLS: Final = ("SCTP", "TCP", "UDP")
_EXTERNAL: Final = {"NodePort", "LoadBalancer"}
_FAMILIES: Final = ("IPv4", "IPv6")
_POLICIES: Final = ("PreferDualStack", "RequireDualStack", "SingleStack")
_DISTRIBUTIONS: Final = ("PreferClose", "PreferSameZone", "PreferSameNode")
_LONGEST_AFFINITY: Final = 86400
_RANGES: Final = "service.beta.kubernetes.io/load-balancer-source-ranges"
_HINTS, _MODE = "service.kubernetes.io/topology-aware-hints", "service.kubernetes.io/topology-mode"
_ONLY_BALANCERS: Final = "may only be used when `type` is 'LoadBalancer'"
_ONCE: Final = "may not change once set"


def is_headless(spec: Mapping[str, Any]) -> bool:
    """Whether the service has no address of its own on purpose."""
    return (spec.get("clusterIPs") or [spec.get("clusterIP")]) == ["None"]


def needs_health_check(spec: Mapping[str, Any]) -> bool:
    """Whether a balancer asks each node if it has endpoints."""
    return spec.get("type") == "LoadBalancer" and spec.get("externalTrafficPolicy") == "Local"


def is_reachable(spec: Mapping[str, Any]) -> bool:
    """Whether it can be reached from outside of the cluster."""
    return spec.get("type") in _EXTERNAL or (spec.get("type") == "ClusterIP" and bool(spec.get("externalIPs")))


def _identity(protocol: str, port: int) -> dict[str, Any]:
    """What two ports may not share, as the API shows it."""
    return {"Name": "", "Protocol": protocol, "AppProtocol": None, "Port": port, "TargetPort": 0, "NodePort": 0}


def _check_ports(ports: Sequence[Mapping[str, Any]], path: str) -> list[FieldError]:
    errors: list[FieldError] = []
    seen: set[str] = set()
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
        number = port.get("port", 0)
        if not 1 <= number <= 65535:
            errors.append(invalid(f"{own}.port", number, "must be between 1 and 65535, inclusive"))
        errors += choice(port, "protocol", _PROTOCOLS, own)
        errors += check_port(port.get("targetPort", 0), f"{own}.targetPort")
        if (protocol := port.get("appProtocol")) is not None:
            errors += named(protocol, names.label_key, f"{own}.appProtocol")
    return errors


def _check_port_pairs(spec: Mapping[str, Any], path: str) -> list[FieldError]:
    ports = spec.get("ports") or ()
    errors: list[FieldError] = []
    if spec.get("type") == "ClusterIP":
        text = "may not be used when `type` is 'ClusterIP'"
        errors += [forbidden(f"{path}[{index}].nodePort", text) for index, port in enumerate(ports) if port.get("nodePort")]
    seen: set[tuple[Any, Any]] = set()
    for index, port in enumerate(ports):
        key = (port.get("protocol"), port.get("port"))
        if key in seen:
            errors.append(duplicate(f"{path}[{index}]", _identity(*key)))
        seen.add(key)
    return errors


def _check_external_name(spec: Mapping[str, Any]) -> list[FieldError]:
    errors = [
        forbidden(f"spec.{field}", "may not be set for ExternalName services")
        for field in ("clusterIPs", "ipFamilies", "ipFamilyPolicy")
        if spec.get(field)
    ]
    name = spec.get("externalName", "").removesuffix(".")
    return [*errors, *(named(name, names.dns_subdomain, "spec.externalName") if name else [required("spec.externalName")])]


def _check_affinity(spec: Mapping[str, Any]) -> list[FieldError]:
    errors = choice(spec, "sessionAffinity", ("ClientIP", "None"), "spec")
    if spec.get("sessionAffinity") == "ClientIP":
        seconds = spec["sessionAffinityConfig"]["clientIP"]["timeoutSeconds"]
        if not 0 < seconds <= _LONGEST_AFFINITY:
            text = f"must be greater than 0 and less than {_LONGEST_AFFINITY}"
            errors.append(invalid("spec.sessionAffinityConfig.clientIP.timeoutSeconds", seconds, text))
    return errors


def _check_families(spec: Mapping[str, Any]) -> list[FieldError]:
    families = spec.get("ipFamilies") or []
    errors: list[FieldError] = []
    for index, family in enumerate(families):
        if family not in _FAMILIES:
            errors.append(unsupported(f"spec.ipFamilies[{index}]", family, _FAMILIES))
        if family in families[:index]:
            errors.append(duplicate(f"spec.ipFamilies[{index}]", family))
    return [*errors, *optional_choice(spec, "ipFamilyPolicy", _POLICIES, "spec")]


def _check_forms(addresses: Sequence[str]) -> list[FieldError]:
    errors: list[FieldError] = []
    if addresses[:1] == ["None"] and len(addresses) > 1:
        errors.append(invalid("spec.clusterIPs", addresses, "'None' must be the first and only value"))
    for index, address in enumerate(addresses):
        if index or address != "None":
            errors += check_address(address, f"spec.clusterIPs[{index}]")
    return errors


def _check_pairs(addresses: Sequence[str], families: Sequence[str]) -> list[FieldError]:
    """Each address is of the family at its place, and each family has one."""
    errors: list[FieldError] = []
    if len({is_ipv4(each) for each in addresses}) != len(addresses):
        errors.append(invalid("spec.clusterIPs", addresses, "may specify no more than one IP for each IP family"))
    for index, (address, family) in enumerate(zip(addresses, families, strict=False)):
        if family in _FAMILIES and is_ipv4(address) != (family == "IPv4"):
            text = f"expected an {family} value as indicated by `ipFamilies[{index}]`"
            errors.append(invalid(f"spec.clusterIPs[{index}]", address, text))
    return errors


def _check_addresses(spec: Mapping[str, Any]) -> list[FieldError]:
    if spec.get("type") == "ExternalName":
        return []
    own, many = spec.get("clusterIP", ""), spec.get("clusterIPs") or []
    errors: list[FieldError] = []
    if own and many and many[0] != own:
        errors.append(invalid("spec.clusterIPs", many, "first value must match `clusterIP`"))
    if not own and many:
        errors.append(invalid("spec.clusterIPs", many, "must be empty when `clusterIP` is not specified"))
    errors += _check_families(spec)
    if len(many) > 2:
        errors.append(invalid("spec.clusterIPs", many, "may only hold up to 2 values"))
    wrong = _check_forms(many)
    return [*errors, *(wrong or ([] if is_headless(spec) else _check_pairs(many, spec.get("ipFamilies") or [])))]


def _check_external_addresses(spec: Mapping[str, Any]) -> list[FieldError]:
    errors: list[FieldError] = []
    for index, address in enumerate(spec.get("externalIPs") or ()):
        own = f"spec.externalIPs[{index}]"
        errors += check_address(address, own) or check_endpoint_address(address, own)
    return errors


def _check_balancer(document: Mapping[str, Any]) -> list[FieldError]:
    spec, annotations = document["spec"], document["metadata"].get("annotations") or {}
    is_balancer, ranges = spec.get("type") == "LoadBalancer", spec.get("loadBalancerSourceRanges") or ()
    errors: list[FieldError] = []
    if ranges or _RANGES in annotations:
        own = "spec.LoadBalancerSourceRanges" if ranges else f"metadata.annotations[{_RANGES}]"
        if not is_balancer:
            errors.append(forbidden(own, _ONLY_BALANCERS))
        for index, each in enumerate(ranges):
            errors += check_range(each.strip(), f"{own}[{index}]")
        if not ranges and annotations[_RANGES].strip():
            errors += [error for each in annotations[_RANGES].split(",") for error in check_range(each.strip(), own)]
    if not is_balancer and spec.get("allocateLoadBalancerNodePorts") is not None:
        errors.append(forbidden("spec.allocateLoadBalancerNodePorts", _ONLY_BALANCERS))
    return [*errors, *_check_class(spec)]


def _check_class(spec: Mapping[str, Any]) -> list[FieldError]:
    name, own = spec.get("loadBalancerClass"), "spec.loadBalancerClass"
    if name is None:
        return []
    return named(name, names.label_key, own) if spec.get("type") == "LoadBalancer" else [forbidden(own, _ONLY_BALANCERS)]


def _check_traffic(spec: Mapping[str, Any]) -> list[FieldError]:
    errors: list[FieldError] = []
    policy, port = spec.get("externalTrafficPolicy", ""), spec.get("healthCheckNodePort", 0)
    if is_reachable(spec):
        errors += choice(spec, "externalTrafficPolicy", ("Cluster", "Local"), "spec")
    elif policy:
        text = "may only be set for externally-accessible services"
        errors.append(invalid("spec.externalTrafficPolicy", policy, text))
    if needs_health_check(spec):
        if not 1 <= port <= 65535:
            errors.append(invalid("spec.healthCheckNodePort", port, "must be between 1 and 65535, inclusive"))
    elif port:
        text = "may only be set when `type` is 'LoadBalancer' and `externalTrafficPolicy` is 'Local'"
        errors.append(invalid("spec.healthCheckNodePort", port, text))
    errors += optional_choice(spec, "internalTrafficPolicy", ("Cluster", "Local"), "spec")
    return [*errors, *optional_choice(spec, "trafficDistribution", _DISTRIBUTIONS, "spec")]


def _check_hints(document: Mapping[str, Any]) -> list[FieldError]:
    annotations = document["metadata"].get("annotations") or {}
    mode, hints = annotations.get(_MODE), annotations.get(_HINTS)
    if mode is None or hints is None or mode == hints:
        return []
    text = f"must match annotations[{_HINTS}] when both are specified"
    return [invalid(f"metadata.annotations[{_MODE}]", mode, text)]


def _check_allocation(spec: Mapping[str, Any]) -> list[FieldError]:
    """What this cluster cannot give: it has one family of addresses, one range of them, and each port once."""
    if spec.get("type") == "ExternalName":
        return []
    headless_alone = is_headless(spec) and not spec.get("selector")
    errors: list[FieldError] = []
    if spec.get("ipFamilyPolicy") == "RequireDualStack" and not headless_alone:
        text = "this cluster is not configured for dual-stack services"
        errors.append(invalid("spec.ipFamilyPolicy", "RequireDualStack", text))
    for index, family in enumerate(spec.get("ipFamilies") or ()):
        if family == "IPv6" and not headless_alone:
            errors.append(invalid(f"spec.ipFamilies[{index}]", family, "not configured on this cluster"))
    if errors:
        return errors
    address = parse_address(spec.get("clusterIP", ""))
    if address is not None and address not in CLUSTER_RANGE:
        why = f"the provided IP ({address}) is not in the valid range. The range of valid IPs is {CLUSTER_RANGE}"
        return [invalid("spec.clusterIPs", spec["clusterIPs"], f"failed to allocate IP {address}: {why}")]
    taken: set[tuple[Any, Any]] = set()
    for index, port in enumerate(spec.get("ports") or ()):
        key = (port.get("protocol"), port.get("nodePort"))
        if port.get("nodePort") and key in taken:
            errors.append(invalid(f"spec.ports[{index}].nodePort", port["nodePort"], "provided port is already allocated"))
        taken.add(key)
    return errors


def check_service(document: dict[str, Any]) -> list[FieldError]:
    """What is wrong with a service, and if nothing is, what this cluster cannot give it."""
    return _check_service(document) or _check_allocation(document["spec"])


def _check_service(document: Mapping[str, Any]) -> list[FieldError]:
    spec = document["spec"]
    errors = _check_hints(document)
    headless, kind = is_headless(spec), spec.get("type")
    if not spec.get("ports") and not headless and kind != "ExternalName":
        errors.append(required("spec.ports"))
    if headless and kind in _EXTERNAL:
        errors.append(invalid("spec.clusterIPs[0]", "None", f"may not be set to 'None' for {kind} services"))
    if kind == "ExternalName":
        errors += _check_external_name(spec)
    errors += _check_ports(spec.get("ports") or (), "spec.ports")
    errors += check_labels(spec.get("selector"), "spec.selector")
    errors += [*_check_affinity(spec), *_check_addresses(spec), *_check_external_addresses(spec)]
    errors += choice(spec, "type", _TYPES, "spec")
    errors += _check_port_pairs(spec, "spec.ports")
    errors += [*_check_balancer(document), *_check_traffic(spec)]
    return errors


def check_service_update(new: dict[str, Any], old: dict[str, Any]) -> list[FieldError]:
    """What is wrong with a change of a service."""
    spec, before = new["spec"], old["spec"]
    errors = [*_check_kept_addresses(spec, before), *_check_kept_families(spec, before)]
    both = {spec.get("type"), before.get("type")} == {"LoadBalancer"}
    if both and spec.get("loadBalancerClass") != before.get("loadBalancerClass"):
        errors.append(invalid("spec.loadBalancerClass", spec.get("loadBalancerClass"), _ONCE))
    errors += _check_class(spec)
    asked = needs_health_check(spec) and needs_health_check(before)
    if asked and spec.get("healthCheckNodePort") != before.get("healthCheckNodePort"):
        errors.append(forbidden("spec.healthCheckNodePort", "field is immutable"))
    errors += _check_service(new)
    return errors or _check_allocation(spec)


def _check_kept_addresses(spec: Mapping[str, Any], before: Mapping[str, Any]) -> list[FieldError]:
    if "ExternalName" in {spec.get("type"), before.get("type")} or (is_headless(spec) and is_headless(before)):
        return []
    own, theirs = spec.get("clusterIPs") or [], before.get("clusterIPs") or []
    if len(own) == len(theirs):
        changed = [index for index, address in enumerate(theirs) if address != own[index]]
        return [invalid(f"spec.clusterIPs[{index}]", own, _ONCE) for index in changed]
    if theirs and own[:1] != theirs[:1]:
        return [invalid("spec.clusterIPs[0]", own, _ONCE if own else "primary clusterIP can not be unset")]
    return []


def _check_kept_families(spec: Mapping[str, Any], before: Mapping[str, Any]) -> list[FieldError]:
    if "ExternalName" in {spec.get("type"), before.get("type")} or is_headless(spec) != is_headless(before):
        return []
    own, theirs = spec.get("ipFamilies") or [], before.get("ipFamilies") or []
    errors: list[FieldError] = []
    if len(own) == 1 and len(theirs) > 1 and (policy := spec.get("ipFamilyPolicy")) != "SingleStack":
        text = "must be 'SingleStack' to release the secondary IP family"
        errors.append(invalid("spec.ipFamilyPolicy", policy, text))
    return errors


def check_service_status(new: dict[str, Any], _old: dict[str, Any]) -> list[FieldError]:
    """What is wrong with the addresses that a balancer reports."""
    entries, own = ((new.get("status") or {}).get("loadBalancer") or {}).get("ingress") or (), "status.loadBalancer.ingress"
    if entries and new["spec"].get("type") != "LoadBalancer":
        return [forbidden(own, "may only be used when `spec.type` is 'LoadBalancer'")]
    errors: list[FieldError] = []
    for index, entry in enumerate(entries):
        path, address, name, mode = f"{own}[{index}]", entry.get("ip", ""), entry.get("hostname", ""), entry.get("ipMode")
        if address:
            errors += check_address(address, f"{path}.ip")
            errors += optional_choice(entry, "ipMode", ("Proxy", "VIP"), path)
        elif mode is not None:
            errors.append(forbidden(f"{path}.ipMode", "may not be specified when `ip` is not set"))
        if name:
            errors += named(name, names.dns_subdomain, f"{path}.hostname")
        if name and parse_address(name) is not None:
            errors.append(invalid(f"{path}.hostname", name, "must be a DNS name, not an IP address"))
    return errors
