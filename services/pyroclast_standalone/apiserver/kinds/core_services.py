"""Services and endpoints."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from typing import Any, Final

from pyroclast_standalone.apiserver.documents import names
from pyroclast_standalone.apiserver.documents.errors import FieldError, duplicate, invalid, required, unsupported
from pyroclast_standalone.apiserver.documents.metadata import check_labels
from pyroclast_standalone.apiserver.documents.selectors import read_field
from pyroclast_standalone.apiserver.documents.tables import Column

from .cells import selector_text
from .checks import choice
from .rules import AGE, NAME, Rules, age_of

__all__ = ["ENDPOINTS", "SERVICE"]

_SPEC: Final = "io.k8s.api.core.v1.ServiceSpec."
_TYPES: Final = ("ClusterIP", "ExternalName", "LoadBalancer", "NodePort")
_PROTOCOLS: Final = ("SCTP", "TCP", "UDP")
_EXTERNAL: Final = {"NodePort", "LoadBalancer"}
_FIRST_NODE_PORT, _NODE_PORTS = 30000, 2768


def _default_service(document: dict[str, Any]) -> None:
    spec = document["spec"]
    spec.setdefault("sessionAffinity", "None")
    if spec["sessionAffinity"] == "None":
        spec.pop("sessionAffinityConfig", None)
    elif spec["sessionAffinity"] == "ClientIP" and not (spec.get("sessionAffinityConfig") or {}).get("clientIP"):
        spec["sessionAffinityConfig"] = {"clientIP": {"timeoutSeconds": 10800}}
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
    """A number below 2**bits that follows from `text`."""
    return int.from_bytes(hashlib.blake2b(text.encode(), digest_size=8).digest(), "big") >> (64 - bits)


def _address(uid: str) -> str:
    """An address in 10.96.0.0/12 for the service of this uid."""
    number = _number_of(uid, 20) or 1
    return f"10.{96 + (number >> 16)}.{number >> 8 & 255}.{number & 255}"


def _prepare_service(document: dict[str, Any]) -> None:
    document["status"] = {"loadBalancer": {}}
    _allocate(document)


def _allocate(document: dict[str, Any]) -> None:
    spec = document["spec"]
    uid = document["metadata"].get("uid") or document["metadata"].get("name", "")
    if spec["type"] == "ExternalName":
        return
    if not spec.get("clusterIP"):
        spec["clusterIP"] = (spec.get("clusterIPs") or [_address(uid)])[0]
    spec["clusterIPs"] = spec.get("clusterIPs") or [spec["clusterIP"]]
    spec.setdefault("ipFamilies", ["IPv4"])
    spec.setdefault("ipFamilyPolicy", "SingleStack")
    if spec["type"] in _EXTERNAL:
        for index, port in enumerate(spec.get("ports") or ()):
            if not port.get("nodePort"):
                port["nodePort"] = _FIRST_NODE_PORT + _number_of(f"{uid}/{index}", 32) % _NODE_PORTS


def _prepare_service_update(new: dict[str, Any], old: Mapping[str, Any]) -> None:
    spec, before = new["spec"], old["spec"]
    if spec["type"] == "ExternalName" or before["type"] == "ExternalName":
        if spec["type"] == "ExternalName" and not spec.get("clusterIP"):
            for field in ("clusterIP", "clusterIPs", "ipFamilies", "ipFamilyPolicy"):
                spec.pop(field, None)
    else:
        for field in ("clusterIP", "clusterIPs", "ipFamilies", "ipFamilyPolicy"):
            if not spec.get(field) and before.get(field):
                spec[field] = before[field]
        if spec["clusterIP"] != before.get("clusterIP") and spec["clusterIPs"] == before.get("clusterIPs"):
            spec["clusterIPs"] = [spec["clusterIP"]]
    ports = {(each.get("protocol"), each.get("port")): each.get("nodePort") for each in before.get("ports") or ()}
    for port in spec.get("ports") or () if spec["type"] in _EXTERNAL else ():
        if not port.get("nodePort") and (known := ports.get((port.get("protocol"), port.get("port")))):
            port["nodePort"] = known
    _allocate(new)


def _identity(protocol: str, port: int) -> dict[str, Any]:
    """What two ports may not share, as the API shows it."""
    return {"Name": "", "Protocol": protocol, "AppProtocol": None, "Port": port, "TargetPort": 0, "NodePort": 0}


def _check_ports(ports: list[dict[str, Any]], path: str) -> list[FieldError]:
    errors: list[FieldError] = []
    seen_names: set[str] = set()
    seen: set[tuple[Any, Any]] = set()
    for index, port in enumerate(ports):
        own = f"{path}[{index}]"
        name = port.get("name", "")
        if not name and len(ports) > 1:
            errors.append(required(f"{own}.name"))
        elif name:
            errors += [invalid(f"{own}.name", name, sentence) for sentence in names.dns_label(name)]
            if name in seen_names:
                errors.append(duplicate(f"{own}.name", name))
            seen_names.add(name)
        number = port.get("port", 0)
        if not 1 <= number <= 65535:
            errors.append(invalid(f"{own}.port", number, "must be between 1 and 65535, inclusive"))
        errors += choice(port, "protocol", _PROTOCOLS, own)
        target = port.get("targetPort", 0)
        if isinstance(target, str):
            errors += [invalid(f"{own}.targetPort", target, sentence) for sentence in names.port_name(target)]
        elif not 1 <= target <= 65535:
            errors.append(invalid(f"{own}.targetPort", target, "must be between 1 and 65535, inclusive"))
    for index, port in enumerate(ports):
        key = (port.get("protocol"), port.get("port"))
        if key in seen:
            errors.append(duplicate(f"{path}[{index}]", _identity(*key)))
        seen.add(key)
    return errors


def _check_service(document: dict[str, Any]) -> list[FieldError]:
    spec = document["spec"]
    ports = spec.get("ports") or []
    errors: list[FieldError] = []
    headless = spec.get("clusterIP") == "None"
    if not ports and not headless and spec.get("type") != "ExternalName":
        errors.append(required("spec.ports"))
    errors += _check_ports(ports, "spec.ports")
    errors += check_labels(spec.get("selector"), "spec.selector")
    errors += choice(spec, "sessionAffinity", ("ClientIP", "None"), "spec")
    errors += choice(spec, "type", _TYPES, "spec")
    if spec.get("type") == "ExternalName":
        if not spec.get("externalName"):
            errors.append(required("spec.externalName"))
        else:
            own = spec["externalName"].rstrip(".")
            errors += [invalid("spec.externalName", own, sentence) for sentence in names.dns_subdomain(own)]
    elif headless and spec.get("type") in _EXTERNAL:
        errors.append(invalid("spec.clusterIPs[0]", "None", f"may not be set to 'None' for {spec['type']} services"))
    policy = spec.get("internalTrafficPolicy")
    if policy is not None and policy not in {"Cluster", "Local"}:
        errors.append(unsupported("spec.internalTrafficPolicy", policy, ["Cluster", "Local"]))
    return errors


def _update_service(new: dict[str, Any], old: dict[str, Any]) -> list[FieldError]:
    errors = _check_service(new)
    spec, before = new["spec"], old["spec"]
    if "ExternalName" not in {spec.get("type"), before.get("type")} and spec.get("clusterIP") != before.get("clusterIP"):
        errors.insert(0, invalid("spec.clusterIPs[0]", spec.get("clusterIPs"), "may not change once set"))
    return errors


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
    check=_check_service,
    check_update=_update_service,
    prepare=_prepare_service,
    prepare_update=_prepare_service_update,
    fields={"spec.clusterIP": read_field("spec.clusterIP"), "spec.type": read_field("spec.type")},
    deletes_to_object=True,
    columns=(
        NAME,
        Column("Type", doc=f"{_SPEC}type"),
        Column("Cluster-IP", doc=f"{_SPEC}clusterIP"),
        Column("External-IP", doc=f"{_SPEC}externalIPs"),
        Column("Port(s)", doc=f"{_SPEC}ports"),
        AGE,
        Column("Selector", priority=1, doc=f"{_SPEC}selector"),
    ),
    cells=_service_cells,
)


def _default_endpoints(document: dict[str, Any]) -> None:
    for subset in document.get("subsets") or ():
        for port in subset.get("ports") or ():
            port.setdefault("protocol", "TCP")


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
    columns=(NAME, Column("Endpoints", doc="io.k8s.api.core.v1.Endpoints.subsets"), AGE),
    cells=_endpoints_cells,
)
