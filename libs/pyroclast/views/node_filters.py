"""Whether a pod may run on a node, by node selector, node affinity, taints and cordon."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

KEEPS_OFF: Final = frozenset({"NoSchedule", "NoExecute"})
CORDON: Final = "node.kubernetes.io/unschedulable"


def forbidden_by(pod: Mapping[str, Any], node: Mapping[str, Any]) -> str:
    """Return why a pod with that spec may not run on the node; empty when it may."""
    metadata, spec = node["metadata"], node.get("spec") or {}
    labels = metadata.get("labels") or {}
    for name, value in (pod.get("nodeSelector") or {}).items():
        if labels.get(name) != value:
            return f"its node selector {name}={value}"
    required = ((pod.get("affinity") or {}).get("nodeAffinity") or {}).get("requiredDuringSchedulingIgnoredDuringExecution")
    if required and not any(_term_holds(term, labels, metadata["name"]) for term in required.get("nodeSelectorTerms") or ()):
        return "its node affinity"
    taints = list(spec.get("taints") or ())
    if spec.get("unschedulable") and not any(taint.get("key") == CORDON for taint in taints):
        taints.append({"key": CORDON, "effect": "NoSchedule"})
    tolerations = pod.get("tolerations") or ()
    for taint in taints:
        if taint.get("effect") in KEEPS_OFF and not any(_tolerates(each, taint) for each in tolerations):
            return f"the taint {taint.get('key')}"
    return ""


def _tolerates(toleration: Mapping[str, Any], taint: Mapping[str, Any]) -> bool:
    if toleration.get("effect") and toleration["effect"] != taint.get("effect"):
        return False
    if toleration.get("operator", "Equal") == "Exists":
        return toleration.get("key") in {None, "", taint.get("key")}
    return toleration.get("key") == taint.get("key") and (toleration.get("value") or "") == (taint.get("value") or "")


def _term_holds(term: Mapping[str, Any], labels: Mapping[str, str], name: str) -> bool:
    expressions, fields = term.get("matchExpressions") or (), term.get("matchFields") or ()
    if not expressions and not fields:
        return False
    return all(_holds(each, labels.get(each["key"])) for each in expressions) and all(_holds(each, name) for each in fields)


def _holds(expression: Mapping[str, Any], value: str | None) -> bool:
    values = expression.get("values") or []
    tests: Mapping[str, Callable[[], bool]] = {
        "In": lambda: value in values,
        "NotIn": lambda: value not in values,
        "Exists": lambda: value is not None,
        "DoesNotExist": lambda: value is None,
        "Gt": lambda: _number(value) is not None and _number(value) > int(values[0]),  # type: ignore[operator]
        "Lt": lambda: _number(value) is not None and _number(value) < int(values[0]),  # type: ignore[operator]
    }
    test = tests.get(expression.get("operator", ""))
    return test is not None and test()


def _number(value: str | None) -> int | None:
    try:
        return None if value is None else int(value)
    except ValueError:
        return None
