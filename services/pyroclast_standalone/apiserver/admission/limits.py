"""What an object uses of a ResourceQuota: counts, and resources of pods and claims."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final, TypeAlias

from pyroclast.resources import quantity
from pyroclast.resources.pods import effective
from pyroclast.resources.quantity import Quantity

Usage: TypeAlias = dict[str, Quantity]

_ONE: Final = quantity.from_value(1)
_COUNTED_BY_NAME: Final = {
    "pods",
    "services",
    "configmaps",
    "secrets",
    "persistentvolumeclaims",
    "replicationcontrollers",
    "resourcequotas",
}
_SHORT: Final = {"cpu", "memory", "ephemeral-storage"}
_FINISHED: Final = {"Succeeded", "Failed"}


def parse(resources: Mapping[str, Any] | None) -> Usage:
    """Return the quantities of a resource list, by name of the resource."""
    return {name: quantity.parse(value) for name, value in (resources or {}).items()}


def wire(usage: Usage) -> dict[str, str]:
    """Return `usage` as a resource list of an API object."""
    return {name: str(usage[name]) for name in sorted(usage)}


def shown(usage: Usage) -> str:
    """Return `usage` as text for messages, such as `cpu=1,pods=2`."""
    return ",".join(f"{name}={usage[name]}" for name in sorted(usage))


def add(total: Usage, more: Usage, *, sign: int = 1) -> None:
    """Add `more` to `total` in place, for the names that `total` has."""
    for name, value in more.items():
        if name in total:
            total[name] = total[name] + value * sign


def usage_of(qualified: str, body: Mapping[str, Any]) -> Usage:
    """Return the usage of one object of the resource `plural.group`. A finished pod only counts as an object."""
    usage: Usage = {f"count/{qualified}": _ONE}
    if qualified in _COUNTED_BY_NAME:
        usage[qualified] = _ONE
    spec = body.get("spec") or {}
    match qualified:
        case "pods":
            return usage | _pod(spec) if not _is_finished(body) else {f"count/{qualified}": _ONE}
        case "persistentvolumeclaims":
            requests = (spec.get("resources") or {}).get("requests") or {}
            if "storage" in requests:
                usage["requests.storage"] = quantity.parse(requests["storage"])
        case _:
            pass
    return usage


def _is_finished(body: Mapping[str, Any]) -> bool:
    return (body.get("status") or {}).get("phase") in _FINISHED


def _pod(spec: Mapping[str, Any]) -> Usage:
    usage: Usage = {}
    for prefix in ("requests", "limits"):
        for name, value in effective(spec, prefix).items():
            usage[f"{prefix}.{name}"] = value
            if prefix == "requests" and name in _SHORT:
                usage[name] = value
    return usage


def _states(container: Mapping[str, Any], kind: str, resource: str) -> bool:
    return resource in ((container.get("resources") or {}).get(kind) or {})


def missing_resources(spec: Mapping[str, Any], names: Iterable[str]) -> dict[str, list[str]]:
    """Return the names of the containers that lack a constrained resource, by resource."""
    missing: dict[str, list[str]] = {}
    whole = spec.get("resources") or {}
    if whole.get("requests") or whole.get("limits"):
        return missing
    for name in sorted(names):
        kind, _, resource = name.rpartition(".")
        kind = kind or "requests"
        if resource not in _SHORT or kind not in {"requests", "limits"}:
            continue
        containers = [*(spec.get("containers") or ()), *(spec.get("initContainers") or ())]
        without = {each["name"] for each in containers if not _states(each, kind, resource)}
        if without:
            missing[name] = sorted(without)
    return missing
