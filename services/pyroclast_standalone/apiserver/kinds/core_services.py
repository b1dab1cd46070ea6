"""Services of type ClusterIP: defaults, allocated addresses, and table rows. Other types are refused."""

from __future__ import annotations

import hashlib
import ipaddress
from collections.abc import Mapping, Sequence
from typing import Any, Final

from pyroclast.rules import names
from pyroclast.rules.errors import FieldError, duplicate, invalid, required
from pyroclast.rules.podspecs.options import check_labels
from pyroclast.rules.podspecs.platform import check_address
from pyroclast.rules.podspecs.probes import check_port
from pyroclast_standalone.apiserver.documents.selectors import read_field
from pyroclast_standalone.apiserver.kinds.rules import Rules, age_of, choice, named, selector_text

CLUSTER_RANGE: Final = ipaddress.IPv4Network("10.96.0.0/12")
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
    if is_headless(spec) and not spec.get("selector"):
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
    errors: list[FieldError] = []
    if (kind := spec.get("type")) != "ClusterIP":
        errors.append(invalid("spec.type", kind, "the embedded API server only has Services of type ClusterIP"))
    if not spec.get("ports") and not is_headless(spec):
        errors.append(required("spec.ports"))
    errors += _check_ports(spec.get("ports") or (), "spec.ports")
    check_labels(spec.get("selector") or {}, "spec.selector", errors)
    errors += choice(spec, "sessionAffinity", ("ClientIP", "None"), "spec")
    return [*errors, *_check_addresses(spec)]


def check_service_update(new: dict[str, Any], old: dict[str, Any]) -> list[FieldError]:
    """Return the faults of a change of a Service: its cluster IP may not change."""
    spec = new["spec"]
    errors: list[FieldError] = []
    own, theirs = spec.get("clusterIPs") or [], old["spec"].get("clusterIPs") or []
    if theirs and not own:
        errors.append(invalid("spec.clusterIPs[0]", own, "primary clusterIP can not be unset"))
    elif own[:1] != theirs[:1]:
        errors.append(invalid("spec.clusterIPs[0]", own, _ONCE))
    errors += _check_service(spec)
    return errors or _check_allocation(spec)


def _default_service(document: dict[str, Any]) -> None:
    spec = document["spec"]
    if spec.setdefault("sessionAffinity", "None") == "ClientIP":
        spec.setdefault("sessionAffinityConfig", {"clientIP": {"timeoutSeconds": 10800}})
    spec.setdefault("type", "ClusterIP")
    spec.setdefault("internalTrafficPolicy", "Cluster")
    for port in spec.get("ports") or ():
        port.setdefault("protocol", "TCP")
        if port.get("targetPort") in {None, 0, ""}:
            port["targetPort"] = port.get("port", 0)


def _address(uid: str) -> str:
    """Return an address in 10.96.0.0/12 for the Service with this UID."""
    digest = hashlib.blake2b(uid.encode(), digest_size=8).digest()
    return str(CLUSTER_RANGE[int.from_bytes(digest, "big") >> 44 or 1])


def _prepare_service(document: dict[str, Any]) -> None:
    document["status"] = {"loadBalancer": {}}
    spec = document["spec"]
    if spec.get("clusterIP") and not spec.get("clusterIPs"):
        spec["clusterIPs"] = [spec["clusterIP"]]
    _allocate(document)


def _allocate(document: dict[str, Any]) -> None:
    """Allocate the unset fields of a Service: an address and the IP family."""
    spec = document["spec"]
    if not spec.get("clusterIP") and not spec.get("clusterIPs"):
        address = _address(document["metadata"].get("uid") or document["metadata"].get("name", ""))
        spec["clusterIP"], spec["clusterIPs"] = address, [address]
    stands_alone = is_headless(spec) and not spec.get("selector")
    spec.setdefault("ipFamilyPolicy", "RequireDualStack" if stands_alone else "SingleStack")
    spec.setdefault("ipFamilies", ["IPv4", "IPv6"] if stands_alone else ["IPv4"])


def _prepare_service_update(new: dict[str, Any], old: Mapping[str, Any]) -> None:
    """Keep the fields that the server allocated."""
    spec, before = new["spec"], old["spec"]
    given = spec.get("clusterIP") or spec.get("clusterIPs")
    kept = ("clusterIP", "clusterIPs", "ipFamilies", "ipFamilyPolicy")[2 if given else 0 :]
    spec |= {field: before[field] for field in kept if before.get(field) and not spec.get(field)}
    if spec.get("clusterIP") and (spec.get("clusterIPs") or [""])[0] != spec["clusterIP"]:
        spec["clusterIPs"] = [spec["clusterIP"]]
    _allocate(new)


def _service_cells(document: Mapping[str, Any], now: float) -> list[Any]:
    spec = document["spec"]
    addresses = spec.get("clusterIPs") or ["<none>"]
    return [
        document["metadata"]["name"],
        spec.get("type", ""),
        addresses[0],
        ",".join(spec.get("externalIPs") or ()) or "<none>",
        ",".join(f"{port.get('port')}/{port.get('protocol')}" for port in spec.get("ports") or ()) or "<none>",
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
