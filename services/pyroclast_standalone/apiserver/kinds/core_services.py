"""Services: what they get by default, their addresses and ports, their rows."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from typing import Any, Final

from pyroclast_standalone.apiserver.documents import names
from pyroclast_standalone.apiserver.documents.selectors import read_field
from pyroclast_standalone.apiserver.documents.tables import Column

from .cells import selector_text
from .rules import AGE, NAME, Rules, age_of
from .service_checks import (
    check_service,
    check_service_status,
    check_service_update,
    is_headless,
    is_reachable,
    needs_health_check,
)

__all__ = ["SERVICE"]

_SPEC: Final = "io.k8s.api.core.v1.ServiceSpec."
_HINTS, _MODE = "service.kubernetes.io/topology-aware-hints", "service.kubernetes.io/topology-mode"
_NO_EXTERNAL: Final = "spec.externalIPs is deprecated and may no longer be implemented in some clusters"
_EXTERNAL: Final = {"NodePort", "LoadBalancer"}
_FIRST_NODE_PORT, _NODE_PORTS = 30000, 2768


def _default_service(document: dict[str, Any]) -> None:
    spec = document["spec"]
    spec.setdefault("sessionAffinity", "None")
    if spec["sessionAffinity"] == "None":
        spec.pop("sessionAffinityConfig", None)
    elif spec["sessionAffinity"] == "ClientIP" and _timeout(spec) is None:
        spec["sessionAffinityConfig"] = {"clientIP": {"timeoutSeconds": 10800}}
    kind = spec.setdefault("type", "ClusterIP")
    for port in spec.get("ports") or ():
        port.setdefault("protocol", "TCP")
        if port.get("targetPort") in {None, 0, ""}:
            port["targetPort"] = port.get("port", 0)
    if is_reachable(spec):
        spec.setdefault("externalTrafficPolicy", "Cluster")
    if kind in {"NodePort", "LoadBalancer", "ClusterIP"}:
        spec.setdefault("internalTrafficPolicy", "Cluster")
    if kind == "LoadBalancer":
        spec.setdefault("allocateLoadBalancerNodePorts", True)
        for entry in ((document.get("status") or {}).get("loadBalancer") or {}).get("ingress") or ():
            if entry.get("ip"):
                entry.setdefault("ipMode", "VIP")


def _timeout(spec: Mapping[str, Any]) -> int | None:
    return ((spec.get("sessionAffinityConfig") or {}).get("clientIP") or {}).get("timeoutSeconds")


def _number_of(text: str, bits: int) -> int:
    """A number below 2**bits that follows from `text`."""
    return int.from_bytes(hashlib.blake2b(text.encode(), digest_size=8).digest(), "big") >> (64 - bits)


def _address(uid: str) -> str:
    """An address in 10.96.0.0/12 for the service of this uid."""
    number = _number_of(uid, 20) or 1
    return f"10.{96 + (number >> 16)}.{number >> 8 & 255}.{number & 255}"


def _prepare_service(document: dict[str, Any]) -> None:
    document["status"] = {"loadBalancer": {}}
    spec = document["spec"]
    if spec.get("clusterIP") and not spec.get("clusterIPs"):
        spec["clusterIPs"] = [spec["clusterIP"]]
    _allocate(document)


def _allocate(document: dict[str, Any]) -> None:
    """Give the service what it needs and does not say: addresses, families, ports of nodes."""
    spec = document["spec"]
    uid = document["metadata"].get("uid") or document["metadata"].get("name", "")
    if spec["type"] == "ExternalName":
        return
    wants_other = spec.get("ipFamilies", ["IPv4"])[:1] != ["IPv4"]
    if not spec.get("clusterIP") and not spec.get("clusterIPs") and not wants_other:
        spec["clusterIP"], spec["clusterIPs"] = _address(uid), [_address(uid)]
    stands_alone = is_headless(spec) and not spec.get("selector")
    spec.setdefault("ipFamilyPolicy", "RequireDualStack" if stands_alone else "SingleStack")
    if not spec.get("ipFamilies"):
        spec["ipFamilies"] = ["IPv4"]
    if stands_alone and spec["ipFamilyPolicy"] in {"RequireDualStack", "PreferDualStack"} and len(spec["ipFamilies"]) == 1:
        spec["ipFamilies"] = [*spec["ipFamilies"], "IPv6" if spec["ipFamilies"] == ["IPv4"] else "IPv4"]
    if spec["type"] in _EXTERNAL and spec.get("allocateLoadBalancerNodePorts", True):
        for index, port in enumerate(spec.get("ports") or ()):
            if not port.get("nodePort"):
                port["nodePort"] = _node_port(f"{uid}/{index}")
    if needs_health_check(spec) and not spec.get("healthCheckNodePort"):
        spec["healthCheckNodePort"] = _node_port(f"{uid}/health")


def _node_port(text: str) -> int:
    return _FIRST_NODE_PORT + _number_of(text, 32) % _NODE_PORTS


def _prepare_service_update(new: dict[str, Any], old: Mapping[str, Any]) -> None:
    spec, before = new["spec"], old["spec"]
    kind, was = spec["type"], before["type"]
    if "ExternalName" not in {kind, was}:
        _keep_addresses(spec, before)
    elif spec.get("clusterIP") and not spec.get("clusterIPs"):
        spec["clusterIPs"] = [spec["clusterIP"]]
    ports = {(each.get("protocol"), each.get("port")): each.get("nodePort") for each in before.get("ports") or ()}
    for port in spec.get("ports") or () if kind in _EXTERNAL and was in _EXTERNAL else ():
        if not port.get("nodePort") and (known := ports.get((port.get("protocol"), port.get("port")))):
            port["nodePort"] = known
    if needs_health_check(spec) and needs_health_check(before) and not spec.get("healthCheckNodePort"):
        spec["healthCheckNodePort"] = before.get("healthCheckNodePort", 0)
    _drop_what_type_has_not(spec, before)
    _allocate(new)


def _keep_addresses(spec: dict[str, Any], before: Mapping[str, Any]) -> None:
    if not spec.get("clusterIP") and not spec.get("clusterIPs"):
        for field in ("clusterIP", "clusterIPs"):
            if before.get(field):
                spec[field] = before[field]
    elif spec.get("clusterIP") != before.get("clusterIP") and spec.get("clusterIPs") == before.get("clusterIPs"):
        spec["clusterIPs"] = [spec["clusterIP"]]
    for field in ("ipFamilies", "ipFamilyPolicy"):
        if not spec.get(field) and before.get(field):
            spec[field] = before[field]


def _drop_what_type_has_not(spec: dict[str, Any], before: Mapping[str, Any]) -> None:
    """What came with the old type goes with it, unless it was changed."""
    kind, was = spec["type"], before["type"]

    def drop(*fields: str) -> None:
        for field in fields:
            if field in spec and spec[field] == before.get(field):
                del spec[field]

    if kind == "ExternalName" and was != "ExternalName":
        if all(spec.get(field) == before.get(field) for field in ("clusterIP", "clusterIPs")):
            drop("clusterIP", "clusterIPs")
        drop("ipFamilies", "ipFamilyPolicy", "internalTrafficPolicy")
    numbers = [each.get("nodePort") for each in before.get("ports") or ()]
    if was in _EXTERNAL and kind not in _EXTERNAL and [each.get("nodePort") for each in spec.get("ports") or ()] == numbers:
        for port in spec.get("ports") or ():
            port.pop("nodePort", None)
    if needs_health_check(before) and not needs_health_check(spec):
        drop("healthCheckNodePort")
    if was == "LoadBalancer" and kind != "LoadBalancer":
        drop("allocateLoadBalancerNodePorts", "loadBalancerClass")
    if is_reachable(before) and not is_reachable(spec):
        drop("externalTrafficPolicy")


def _warn_of_service(document: Mapping[str, Any], _old: Mapping[str, Any] | None) -> list[str]:
    spec = document["spec"]
    headless = spec.get("type") == "ClusterIP" and spec.get("clusterIP") == "None"
    external, ignored = bool(spec.get("externalIPs")), "is ignored for headless services"
    told = {
        f"annotation {_HINTS} is deprecated, please use {_MODE} instead": _HINTS
        in (document["metadata"].get("annotations") or {}),
        f"spec.loadBalancerIP {ignored}": headless and bool(spec.get("loadBalancerIP")),
        f"spec.externalIPs {ignored}": headless and external,
        f"spec.SessionAffinity {ignored}": headless and spec.get("sessionAffinity") != "None",
        _NO_EXTERNAL: external and not headless and spec.get("type") != "ExternalName",
        'spec.externalIPs is ignored when spec.type is "ExternalName"': external and spec.get("type") == "ExternalName",
        'spec.externalName is ignored when spec.type is not "ExternalName"': bool(spec.get("externalName"))
        and spec.get("type") != "ExternalName",
        'spec.trafficDistribution: "PreferClose" is deprecated; use "PreferSameZone"': spec.get("trafficDistribution")
        == "PreferClose",
    }
    return [text for text, applies in told.items() if applies]


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
    check_status=check_service_status,
    warnings=_warn_of_service,
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
