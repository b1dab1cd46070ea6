"""Where the traffic of services goes: Endpoints and EndpointSlices."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from pyroclast_standalone.apiserver.documents import names
from pyroclast_standalone.apiserver.documents.errors import FieldError, duplicate, invalid, required, too_many
from pyroclast_standalone.apiserver.documents.metadata import check_labels
from pyroclast_standalone.apiserver.documents.tables import Column

from .addresses import check_address, check_endpoint_address, is_ipv4
from .checks import choice, named
from .rules import AGE, NAME, Rules, age_of

__all__ = ["ENDPOINTS", "ENDPOINT_SLICE"]

_SHOWN: Final = 3  # ports and endpoints that a row names one by one
_PROTOCOLS: Final = ("SCTP", "TCP", "UDP")
_ADDRESS_TYPES: Final = ("FQDN", "IPv4", "IPv6")
_MOST_ENDPOINTS, _MOST_ADDRESSES, _MOST_PORTS, _MOST_HINTS, _MOST_LABELS = 1000, 100, 20000, 8, 16
_OLD_ENDPOINTS: Final = "v1 Endpoints is deprecated in v1.33+; use discovery.k8s.io/v1 EndpointSlice"


def _default_endpoints(document: dict[str, Any]) -> None:
    for subset in document.get("subsets") or ():
        for port in subset.get("ports") or ():
            port.setdefault("protocol", "TCP")


def _check_address(address: Mapping[str, Any], path: str) -> list[FieldError]:
    text = address.get("ip", "")
    errors = check_address(text, f"{path}.ip")
    if name := address.get("hostname"):
        errors += named(name, names.dns_label, f"{path}.hostname")
    if (name := address.get("nodeName")) is not None:
        errors += named(name, names.dns_subdomain, f"{path}.nodeName")
    return [*errors, *check_endpoint_address(text, f"{path}.ip")]


def _check_port(port: Mapping[str, Any], path: str, *, needs_name: bool) -> list[FieldError]:
    name, number = port.get("name", ""), port.get("port", 0)
    errors: list[FieldError] = []
    if needs_name and not name:
        errors.append(required(f"{path}.name"))
    elif name:
        errors += named(name, names.dns_label, f"{path}.name")
    if not 1 <= number <= 65535:
        errors.append(invalid(f"{path}.port", number, "must be between 1 and 65535, inclusive"))
    errors += choice(port, "protocol", _PROTOCOLS, path)
    if (protocol := port.get("appProtocol")) is not None:
        errors += named(protocol, names.label_key, f"{path}.appProtocol")
    return errors


def _check_endpoints(document: dict[str, Any]) -> list[FieldError]:
    errors: list[FieldError] = []
    for index, subset in enumerate(document.get("subsets") or ()):
        own = f"subsets[{index}]"
        if not subset.get("addresses") and not subset.get("notReadyAddresses"):
            errors.append(required(own, "must specify `addresses` or `notReadyAddresses`"))
        for field in ("addresses", "notReadyAddresses"):
            for at, address in enumerate(subset.get(field) or ()):
                errors += _check_address(address, f"{own}.{field}[{at}]")
        ports = subset.get("ports") or ()
        for at, port in enumerate(ports):
            errors += _check_port(port, f"{own}.ports[{at}]", needs_name=len(ports) > 1)
    return errors


def _update_endpoints(new: dict[str, Any], old: dict[str, Any]) -> list[FieldError]:
    return [] if new.get("subsets") == old.get("subsets") else _check_endpoints(new)


def _endpoints_cells(document: Mapping[str, Any], now: float) -> list[Any]:
    shown = [
        f"{address.get('ip')}:{port.get('port')}"
        for subset in document.get("subsets") or ()
        for port in subset.get("ports") or ()
        for address in subset.get("addresses") or ()
    ]
    more = f" + {len(shown) - 3} more..." if len(shown) > 3 else ""
    return [document["metadata"]["name"], (",".join(shown[:3]) + more) or "<none>", age_of(document, now)]


ENDPOINTS: Final = Rules(
    default=_default_endpoints,
    check=_check_endpoints,
    check_update=_update_endpoints,
    deprecation=_OLD_ENDPOINTS,
    columns=(NAME, Column("Endpoints", doc="io.k8s.api.core.v1.Endpoints.subsets"), AGE),
    cells=_endpoints_cells,
)


def _few(values: list[str]) -> str:
    more = f" + {len(values) - _SHOWN} more..." if len(values) > _SHOWN else ""
    return (",".join(values[:_SHOWN]) + more) or "<unset>"


def _slice_cells(document: Mapping[str, Any], now: float) -> list[Any]:
    ports = [str(each.get("port") or "*") for each in document.get("ports") or ()]
    addresses = [address for each in document.get("endpoints") or () for address in each.get("addresses") or ()]
    return [
        document["metadata"]["name"],
        document.get("addressType", ""),
        _few(ports),
        _few(addresses),
        age_of(document, now),
    ]


def _default_slice(document: dict[str, Any]) -> None:
    for port in document.get("ports") or ():
        port.setdefault("name", "")
        port.setdefault("protocol", "TCP")


def _check_target(address: str, kind: str, path: str, own: str) -> list[FieldError]:
    if kind == "FQDN":
        return named(address, names.dns_subdomain, own)
    if errors := check_address(address, own):
        return errors
    fits = is_ipv4(address) == (kind == "IPv4")
    errors = [] if fits else [invalid(path, address, f"must be an {kind} address")]
    return [*errors, *check_endpoint_address(address, own)]


def _check_hints(hints: Mapping[str, Any], path: str) -> list[FieldError]:
    errors: list[FieldError] = []
    for field, rule in (("forZones", names.label_value), ("forNodes", names.dns_subdomain)):
        given = [each.get("name", "") for each in hints.get(field) or ()]
        if len(given) > _MOST_HINTS:
            return [*errors, too_many(f"{path}.{field}", len(given), _MOST_HINTS)]
        for index, name in enumerate(given):
            own = f"{path}.{field}[{index}].name"
            if name in given[:index]:
                errors.append(duplicate(own, name))
            errors += named(name, rule, own)
    return errors


def _check_slice_endpoints(endpoints: Sequence[Mapping[str, Any]], kind: str) -> list[FieldError]:
    if len(endpoints) > _MOST_ENDPOINTS:
        return [too_many("endpoints", len(endpoints), _MOST_ENDPOINTS)]
    errors: list[FieldError] = []
    for index, endpoint in enumerate(endpoints):
        own, addresses = f"endpoints[{index}]", endpoint.get("addresses") or []
        if not addresses:
            errors.append(required(f"{own}.addresses", "must contain at least 1 address"))
        elif len(addresses) > _MOST_ADDRESSES:
            errors.append(too_many(f"{own}.addresses", len(addresses), _MOST_ADDRESSES))
        for at, address in enumerate(addresses) if kind in _ADDRESS_TYPES else ():
            errors += _check_target(address, kind, f"{own}.addresses", f"{own}.addresses[{at}]")
        if (name := endpoint.get("nodeName")) is not None:
            errors += named(name, names.dns_subdomain, f"{own}.nodeName")
        labels = endpoint.get("deprecatedTopology") or {}
        if len(labels) > _MOST_LABELS:
            errors.append(too_many(f"{own}.deprecatedTopology", len(labels), _MOST_LABELS))
        errors += check_labels(labels, f"{own}.deprecatedTopology")
        if (name := endpoint.get("hostname")) is not None:
            errors += named(name, names.dns_label, f"{own}.hostname")
        errors += _check_hints(endpoint.get("hints") or {}, f"{own}.hints")
    return errors


def _check_slice_ports(ports: Sequence[Mapping[str, Any]]) -> list[FieldError]:
    if len(ports) > _MOST_PORTS:
        return [too_many("ports", len(ports), _MOST_PORTS)]
    errors: list[FieldError] = []
    seen: set[str] = set()
    for index, port in enumerate(ports):
        own, name = f"ports[{index}]", port.get("name", "")
        if name:
            errors += named(name, names.dns_label, f"{own}.name")
        if name in seen:
            errors.append(duplicate(f"{own}.name", name))
        seen.add(name)
        errors += choice(port, "protocol", _PROTOCOLS, own)
        if (protocol := port.get("appProtocol")) is not None:
            errors += named(protocol, names.label_key, f"{own}.appProtocol")
    return errors


def _check_slice(document: dict[str, Any]) -> list[FieldError]:
    errors = [*choice(document, "addressType", _ADDRESS_TYPES, ""), *_check_slice_ports(document.get("ports") or ())]
    return [*errors, *_check_slice_endpoints(document.get("endpoints") or (), document.get("addressType", ""))]


def _update_slice(new: dict[str, Any], old: dict[str, Any]) -> list[FieldError]:
    errors = [*choice(new, "addressType", _ADDRESS_TYPES, ""), *_check_slice_ports(new.get("ports") or ())]
    if new.get("endpoints") != old.get("endpoints"):
        errors += _check_slice_endpoints(new.get("endpoints") or (), new.get("addressType", ""))
    if new.get("addressType") != old.get("addressType"):
        errors.append(invalid("addressType", new.get("addressType", ""), "field is immutable"))
    return errors


def _drop_topology(document: dict[str, Any]) -> None:
    for endpoint in document.get("endpoints") or ():
        endpoint.pop("deprecatedTopology", None)


def _prepare_slice_update(new: dict[str, Any], old: Mapping[str, Any]) -> None:
    if not any("deprecatedTopology" in each for each in old.get("endpoints") or ()):
        _drop_topology(new)
    mine, theirs = ({field: each.get(field) for field in ("addressType", "endpoints", "ports")} for each in (new, old))
    relabeled = (new["metadata"].get("labels") or {}) != (old["metadata"].get("labels") or {})
    new["metadata"]["generation"] = (old["metadata"].get("generation") or 0) + (relabeled or mine != theirs)


def _prepare_slice(document: dict[str, Any]) -> None:
    _drop_topology(document)
    document["metadata"]["generation"] = 1


ENDPOINT_SLICE: Final = Rules(
    default=_default_slice,
    check=_check_slice,
    check_update=_update_slice,
    prepare=_prepare_slice,
    prepare_update=_prepare_slice_update,
    columns=(
        NAME,
        *(
            Column(field[:1].upper() + field[1:], doc=f"io.k8s.api.discovery.v1.EndpointSlice.{field}")
            for field in ("addressType", "ports", "endpoints")
        ),
        AGE,
    ),
    cells=_slice_cells,
)
