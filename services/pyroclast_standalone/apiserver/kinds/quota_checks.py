"""Validation of ResourceQuotas and LimitRanges, with the messages of the API."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from pyroclast.resources import quantity
from pyroclast.rules.amounts import amount
from pyroclast.rules.errors import FieldError, invalid, invalid_for
from pyroclast.rules.podspecs.requirements import STANDARD, amount_problems, resource_problems

_SCOPES: Final = ("Terminating", "NotTerminating", "BestEffort", "NotBestEffort", "PriorityClass")
_CONFLICTING: Final = ({"BestEffort", "NotBestEffort"}, {"Terminating", "NotTerminating"})
_OF_PODS: Final = {"pods", *(f"{kind}{name}" for kind in ("", "requests.", "limits.") for name in ("cpu", "memory"))}
_LIMIT_TYPES: Final = ("Pod", "Container", "PersistentVolumeClaim")


def _is_standard(name: str) -> bool:
    return (name in STANDARD and name != "storage") or name.startswith(("hugepages-", "requests.hugepages-"))


def _check_hard(amounts: Mapping[str, str], path: str) -> list[FieldError]:
    errors: list[FieldError] = []
    for name, value in amounts.items():
        own = f"{path}[{name}]"
        errors += invalid_for(own, name, resource_problems(name))
        if name.startswith("services."):
            errors.append(invalid(own, name, "the embedded API server does not count it"))
        elif "/" not in name and not _is_standard(name):
            errors.append(invalid(own, name, "must be a standard resource for quota"))
        errors += invalid_for(own, value, amount_problems(name, amount(value)))
    return errors


def _check_scopes(spec: Mapping[str, Any]) -> list[FieldError]:
    """Check the scopes. A scope that this server does not enforce is rejected, so that no quota silently has no effect."""
    scopes, path = spec.get("scopes") or [], "spec.scopes"
    counted = [name for name in spec.get("hard") or () if "/" not in name]
    errors: list[FieldError] = []
    for scope in scopes:
        if scope not in _SCOPES:
            errors.append(invalid(path, scopes, "unsupported scope"))
        elif any(name not in ({"pods"} if scope == "BestEffort" else _OF_PODS) for name in counted):
            errors.append(invalid(path, scopes, "unsupported scope applied to resource"))
    errors += [invalid(path, scopes, "conflicting scopes") for pair in _CONFLICTING if pair <= set(scopes)]
    own = "spec.scopeSelector.matchExpressions.scopeName"
    selected = [each.get("scopeName", "") for each in (spec.get("scopeSelector") or {}).get("matchExpressions") or ()]
    return [*errors, *(invalid(own, scope, "unsupported scope") for scope in selected if scope not in _SCOPES)]


def check_quota(document: dict[str, Any]) -> list[FieldError]:
    """Return the faults of a quota."""
    spec = document["spec"]
    return [*_check_hard(spec.get("hard") or {}, "spec.hard"), *_check_scopes(spec)]


def check_quota_update(new: dict[str, Any], old: dict[str, Any]) -> list[FieldError]:
    """Return the faults of a change of a quota: its scopes may not change."""
    scopes = new["spec"].get("scopes")
    fixed = set(scopes or ()) == set(old["spec"].get("scopes") or ())
    return [*check_quota(new), *([] if fixed else [invalid("spec.scopes", scopes, "field is immutable")])]


def check_limit_range(document: dict[str, Any]) -> list[FieldError]:
    """Return the faults of a LimitRange."""
    errors: list[FieldError] = []
    for index, limit in enumerate(document["spec"].get("limits") or ()):
        own, kind = f"spec.limits[{index}]", limit.get("type", "")
        if "/" not in kind and kind not in _LIMIT_TYPES:
            errors.append(invalid(f"{own}.type", kind, "must be a standard limit type or fully qualified"))
        least, most = limit.get("min") or {}, limit.get("max") or {}
        for name, value in least.items():
            if name in most and quantity.parse(value) > quantity.parse(most[name]):
                errors.append(invalid(f"{own}.min[{name}]", value, f"min value {value} is greater than max value {most[name]}"))
    return errors
