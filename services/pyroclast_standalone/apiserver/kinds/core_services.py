"""Services: defaults, allocated addresses and ports, and table rows."""

from __future__ import annotations

import hashlib
import ipaddress
from collections.abc import Mapping, Sequence
from typing import Any, Final

from pyroclast.rules import names
from pyroclast.rules.errors import FieldError, duplicate, forbidden, invalid, required
from pyroclast.rules.podspecs.platform import check_address
from pyroclast.rules.podspecs.probes import check_port
from pyroclast_standalone.apiserver.documents.metadata import check_labels
from pyroclast_standalone.apiserver.documents.selectors import read_field
from pyroclast_standalone.apiserver.kinds.rules import Rules, age_of, choice, named, selector_text

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


_EXTERNAL: Final = {"NodePort", "LoadBalancer"}
_FIRST_NODE_PORT, _NODE_PORTS = 30000, 2768


def _default_service(document: dict[str, Any]) -> None:
    spec = document["spec"]
    if spec.setdefault("sessionAffinity", "None") == "ClientIP":
        spec.setdefault("sessionAffinityConfig", {"clientIP": {"timeoutSeconds": 10800}})
    kind = spec.setdefault("type", "ClusterIP")
    for port in spec.get("ports") or ():
        port.setdefault("protocol", "TCP")
        if port.get("targetPort") in {None, 0, ""}:
            port["targetPort"] = port.get("port", 0)
    if kind in _EXTERNAL:
        spec.setdefault("externalTrafficPolicy", "Cluster")
    if kind != "ExternalName":
        spec.setdefault("internalTrafficPolicy", "Cluster")
    if kind == "LoadBalancer":
        spec.setdefault("allocateLoadBalancerNodePorts", True)


def _number_of(text: str, bits: int) -> int:
    """Return a number below 2**bits that follows from `text`."""
    return int.from_bytes(hashlib.blake2b(text.encode(), digest_size=8).digest(), "big") >> (64 - bits)


def _address(uid: str) -> str:
    """Return an address in 10.96.0.0/12 for the Service with this UID."""
    number = _number_of(uid, 20) or 1
    return f"10.{96 + (number >> 16)}.{number >> 8 & 255}.{number & 255}"


def _prepare_service(document: dict[str, Any]) -> None:
    document["status"] = {"loadBalancer": {}}
    spec = document["spec"]
    if spec.get("clusterIP") and not spec.get("clusterIPs"):
        spec["clusterIPs"] = [spec["clusterIP"]]
    _allocate(document)


def _allocate(document: dict[str, Any]) -> None:
    """Allocate the unset fields of a Service: an address, the IP family, and node ports."""
    spec = document["spec"]
    uid = document["metadata"].get("uid") or document["metadata"].get("name", "")
    if spec["type"] == "ExternalName":
        return
    if not spec.get("clusterIP") and not spec.get("clusterIPs"):
        spec["clusterIP"], spec["clusterIPs"] = _address(uid), [_address(uid)]
    stands_alone = is_headless(spec) and not spec.get("selector")
    spec.setdefault("ipFamilyPolicy", "RequireDualStack" if stands_alone else "SingleStack")
    spec.setdefault("ipFamilies", ["IPv4", "IPv6"] if stands_alone else ["IPv4"])
    for index, port in enumerate(spec.get("ports") or ()):
        if spec["type"] in _EXTERNAL and not port.get("nodePort"):
            port["nodePort"] = _FIRST_NODE_PORT + _number_of(f"{uid}/{index}", 32) % _NODE_PORTS


def _prepare_service_update(new: dict[str, Any], old: Mapping[str, Any]) -> None:
    """Keep the fields that the server allocated, if the type still has them."""
    spec, before = new["spec"], old["spec"]
    kind = spec["type"]
    chosen = ("clusterIP", "clusterIPs", "ipFamilies", "ipFamilyPolicy")
    if kind == "ExternalName" and before["type"] != kind:
        for field in (*chosen, "internalTrafficPolicy"):
            if spec.get(field) == before.get(field):
                spec.pop(field, None)
    elif kind == before["type"] or before["type"] != "ExternalName":
        given = spec.get("clusterIP") or spec.get("clusterIPs")
        spec |= {field: before[field] for field in chosen[2 if given else 0 :] if before.get(field) and not spec.get(field)}
    if spec.get("clusterIP") and (spec.get("clusterIPs") or [""])[0] != spec["clusterIP"]:
        spec["clusterIPs"] = [spec["clusterIP"]]
    known = {(each.get("protocol"), each.get("port")): each.get("nodePort") for each in before.get("ports") or ()}
    for port in spec.get("ports") or ():
        if kind not in _EXTERNAL:
            port.pop("nodePort", None)
        elif number := port.get("nodePort") or known.get((port.get("protocol"), port.get("port"))):
            port["nodePort"] = number
    if kind not in _EXTERNAL:
        for field in ("externalTrafficPolicy", "allocateLoadBalancerNodePorts"):
            if spec.get(field) == before.get(field):
                spec.pop(field, None)
    _allocate(new)


def _ports_text(ports: list[dict[str, Any]]) -> str:
    shown = []
    for port in ports:
        node = f":{port['nodePort']}" if port.get("nodePort") else ""
        shown.append(f"{port.get('port')}{node}/{port.get('protocol')}")
    return ",".join(shown) or "<none>"


def _external_address(document: Mapping[str, Any]) -> str:
    spec = document["spec"]
    given = list(spec.get("externalIPs") or ())
    match spec.get("type"):
        case "ClusterIP" | "NodePort":
            return ",".join(given) or "<none>"
        case "LoadBalancer":
            entries = ((document.get("status") or {}).get("loadBalancer") or {}).get("ingress") or ()
            own = [each.get("ip") or each.get("hostname", "") for each in entries]
            return ",".join([*own, *given]) or "<pending>"
        case "ExternalName":
            return str(spec.get("externalName", ""))
        case _:
            return "<unknown>"


def _service_cells(document: Mapping[str, Any], now: float) -> list[Any]:
    spec = document["spec"]
    addresses = spec.get("clusterIPs") or ["<none>"]
    return [
        document["metadata"]["name"],
        spec.get("type", ""),
        addresses[0],
        _external_address(document),
        _ports_text(spec.get("ports") or []),
        age_of(document, now),
        selector_text(spec.get("selector")),
    ]


SERVICE: Final = Rules(
    name=names.dns_label,
    default=_default_service,
    check=check_service,
    check_update=check_service_update,
    prepare=_prepare_service,
    prepare_update=_prepare_service_update,
    fields={"spec.clusterIP": read_field("spec.clusterIP"), "spec.type": read_field("spec.type")},
    deletes_to_object=True,
    cells=_service_cells,
)
