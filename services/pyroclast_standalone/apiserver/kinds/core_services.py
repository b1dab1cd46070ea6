"""Services: defaults, allocated addresses and ports, and table rows."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from typing import Any, Final

from pyroclast.rules import names
from pyroclast_standalone.apiserver.documents.selectors import read_field
from pyroclast_standalone.apiserver.kinds.rules import Rules, age_of, selector_text
from pyroclast_standalone.apiserver.kinds.service_checks import check_service, check_service_update, is_headless

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
