"""Network policies, ingresses, and autoscaling."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from pyroclast_standalone.apiserver.documents.errors import FieldError
from pyroclast_standalone.apiserver.documents.tables import Column

from .autoscaler_checks import check_autoscaler, check_autoscaler_status
from .cells import selector_text
from .checks import immutable
from .network_checks import check_ingress, check_ingress_class, check_ingress_status, check_policy, warn_of_ingress
from .rules import AGE, NAME, Rules, age_of

__all__ = ["HORIZONTAL_POD_AUTOSCALER", "INGRESS", "INGRESS_CLASS", "NETWORK_POLICY", "PLAIN"]

_SHOWN: Final = 3  # ports and endpoints that a row names one by one


def _default_policy(document: dict[str, Any]) -> None:
    spec = document["spec"]
    for direction in ("ingress", "egress"):
        for rule in spec.get(direction) or ():
            for port in rule.get("ports") or ():
                port.setdefault("protocol", "TCP")
    if not spec.get("policyTypes"):
        spec["policyTypes"] = ["Ingress", "Egress"] if spec.get("egress") else ["Ingress"]


def _policy_cells(document: Mapping[str, Any], now: float) -> list[Any]:
    return [document["metadata"]["name"], selector_text(document["spec"].get("podSelector")), age_of(document, now)]


NETWORK_POLICY: Final = Rules(
    default=_default_policy,
    check=check_policy,
    check_update=lambda new, _old: check_policy(new),
    generation=True,
    columns=(NAME, Column("Pod-Selector", doc="io.k8s.api.networking.v1.NetworkPolicySpec.podSelector"), AGE),
    cells=_policy_cells,
)


def _ingress_cells(document: Mapping[str, Any], now: float) -> list[Any]:
    spec, status = document["spec"], document.get("status") or {}
    hosts = [rule["host"] for rule in spec.get("rules") or () if rule.get("host")]
    more = f" + {len(hosts) - _SHOWN} more..." if len(hosts) > _SHOWN else ""
    entries = (status.get("loadBalancer") or {}).get("ingress") or ()
    return [
        document["metadata"]["name"],
        spec.get("ingressClassName") or "<none>",
        (",".join(hosts[:_SHOWN]) + more) or "*",
        ",".join(each.get("ip") or each.get("hostname", "") for each in entries),
        "80, 443" if spec.get("tls") else "80",
        age_of(document, now),
    ]


INGRESS: Final = Rules(
    check=check_ingress,
    check_update=lambda new, _old: check_ingress(new, is_new=False),
    check_status=check_ingress_status,
    warnings=warn_of_ingress,
    generation=True,
    columns=(
        NAME,
        Column("Class", description="The class that serves it."),
        Column("Hosts", description="Hosts that it answers for."),
        Column("Address", description="Where it can be reached."),
        Column("Ports", description="Ports that it opens."),
        AGE,
    ),
    cells=_ingress_cells,
)


def _default_class(document: dict[str, Any]) -> None:
    if parameters := document["spec"].get("parameters"):
        parameters.setdefault("scope", "Cluster")


def _class_cells(document: Mapping[str, Any], now: float) -> list[Any]:
    spec = document["spec"]
    parameters = spec.get("parameters")
    shown = "<none>"
    if parameters:
        group = f".{parameters['apiGroup']}" if parameters.get("apiGroup") else ""
        shown = f"{parameters.get('kind', '')}{group}/{parameters.get('name', '')}"
    return [document["metadata"]["name"], spec.get("controller", ""), shown, age_of(document, now)]


def _update_class(new: dict[str, Any], old: dict[str, Any]) -> list[FieldError]:
    return [*check_ingress_class(new), *immutable(new["spec"], old["spec"], "controller", "spec.controller")]


INGRESS_CLASS: Final = Rules(
    default=_default_class,
    check=check_ingress_class,
    check_update=_update_class,
    generation=True,
    columns=(
        NAME,
        Column("Controller", description="Who serves the class."),
        Column("Parameters", description="Where its parameters are."),
        AGE,
    ),
    cells=_class_cells,
)


def _default_autoscaler(document: dict[str, Any]) -> None:
    spec = document["spec"]
    spec.setdefault("minReplicas", 1)
    if not spec.get("metrics"):
        target = {"type": "Utilization", "averageUtilization": 80}
        spec["metrics"] = [{"type": "Resource", "resource": {"name": "cpu", "target": target}}]
    behavior = spec.get("behavior")
    if behavior and {"scaleUp", "scaleDown"} & set(behavior):
        _default_rules(behavior, "scaleUp", _SCALE_UP)
        _default_rules(behavior, "scaleDown", _SCALE_DOWN)


_ALL_AT_ONCE: Final = {"type": "Percent", "value": 100, "periodSeconds": 15}
_SCALE_UP: Final = {
    "stabilizationWindowSeconds": 0,
    "selectPolicy": "Max",
    "policies": ({"type": "Pods", "value": 4, "periodSeconds": 15}, _ALL_AT_ONCE),
}
_SCALE_DOWN: Final = {"selectPolicy": "Max", "policies": (_ALL_AT_ONCE,)}


def _default_rules(behavior: dict[str, Any], direction: str, defaults: Mapping[str, Any]) -> None:
    rules = behavior.get(direction)
    if rules is None:
        rules = behavior[direction] = {}
    for field, value in defaults.items():
        if rules.get(field) is None:
            rules[field] = [dict(each) for each in value] if field == "policies" else value


def _autoscaler_cells(document: Mapping[str, Any], now: float) -> list[Any]:
    spec, status = document["spec"], document.get("status") or {}
    target = spec.get("scaleTargetRef") or {}
    return [
        document["metadata"]["name"],
        f"{target.get('kind', '')}/{target.get('name', '')}",
        _targets(spec, status),
        str(spec.get("minReplicas", "<unset>")),
        spec.get("maxReplicas", 0),
        status.get("currentReplicas", 0),
        age_of(document, now),
    ]


def _targets(spec: Mapping[str, Any], status: Mapping[str, Any]) -> str:
    current = {(each.get("resource") or {}).get("name"): each for each in status.get("currentMetrics") or ()}
    shown = []
    for metric in spec.get("metrics") or ():
        resource = metric.get("resource") or {}
        wanted = (resource.get("target") or {}).get("averageUtilization")
        found = ((current.get(resource.get("name")) or {}).get("resource") or {}).get("current") or {}
        now = found.get("averageUtilization")
        shown.append(f"{resource.get('name', '')}: {'<unknown>' if now is None else f'{now}%'}/{wanted}%")
    return ", ".join(shown) or "<none>"


_AUTOSCALER: Final = "io.k8s.api.autoscaling.v2.HorizontalPodAutoscaler"
HORIZONTAL_POD_AUTOSCALER: Final = Rules(
    default=_default_autoscaler,
    check=check_autoscaler,
    check_update=lambda new, _old: check_autoscaler(new),
    check_status=check_autoscaler_status,
    columns=(
        NAME,
        Column("Reference", doc=f"{_AUTOSCALER}Spec.scaleTargetRef"),
        Column("Targets", doc=f"{_AUTOSCALER}Spec.metrics"),
        Column("MinPods", doc=f"{_AUTOSCALER}Spec.minReplicas"),
        Column("MaxPods", doc=f"{_AUTOSCALER}Spec.maxReplicas"),
        Column("Replicas", doc=f"{_AUTOSCALER}Status.currentReplicas"),
        AGE,
    ),
    cells=_autoscaler_cells,
)


def _plain_cells(document: Mapping[str, Any], now: float) -> list[Any]:
    return [document["metadata"]["name"], age_of(document, now)]


PLAIN: Final = Rules(generation=True, columns=(NAME, AGE), cells=_plain_cells)
"""Kinds that show their age and are validated by their users."""
