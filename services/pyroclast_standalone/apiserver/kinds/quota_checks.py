"""Validation of resource quotas and limit ranges, in the API's words."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from pyroclast.resources import quantity
from pyroclast_standalone.apiserver.documents import names
from pyroclast_standalone.apiserver.documents.errors import FieldError, duplicate, forbidden, invalid, required

from .checks import named
from .internals import internal_form
from .resource_checks import STANDARD_RESOURCES, check_amount, check_container_name, check_resource_name, overcommits

__all__ = ["check_limit_range", "check_quota", "check_quota_status", "check_quota_update"]

_SCOPES: Final = (
    "Terminating",
    "NotTerminating",
    "BestEffort",
    "NotBestEffort",
    "PriorityClass",
    "CrossNamespacePodAffinity",
    "VolumeAttributesClass",
)
_PODS: Final = {"pods", "cpu", "memory", "limits.cpu", "limits.memory", "requests.cpu", "requests.memory"}
_CLAIMS: Final = {"persistentvolumeclaims", "requests.storage"}
_ONLY_EXISTS: Final = {"BestEffort", "NotBestEffort", "Terminating", "NotTerminating", "CrossNamespacePodAffinity"}
_PAIRS: Final = ({"BestEffort", "NotBestEffort"}, {"Terminating", "NotTerminating"})
_EXISTS_TEXT: Final = (
    "must be 'Exists' when scope is any of ResourceQuotaScopeTerminating, ResourceQuotaScopeNotTerminating, "
    "ResourceQuotaScopeBestEffort, ResourceQuotaScopeNotBestEffort or ResourceQuotaScopeCrossNamespacePodAffinity"
)
_LIMIT_TYPES: Final = ("Pod", "Container", "PersistentVolumeClaim")
_LIMITS: Final = ("max", "min", "default", "defaultRequest", "maxLimitRequestRatio")


def _is_standard(name: str) -> bool:
    return (name in STANDARD_RESOURCES and name != "storage") or name.startswith(("hugepages-", "requests.hugepages-"))


def _check_hard(amounts: Mapping[str, str], path: str) -> list[FieldError]:
    errors: list[FieldError] = []
    for name, amount in amounts.items():
        own = f"{path}[{name}]"
        errors += check_resource_name(name, own)
        if "/" not in name and not _is_standard(name):
            errors.append(invalid(own, name, "must be a standard resource for quota"))
        errors += check_amount(name, amount, own)
    return errors


def _fits(scope: str, resource: str) -> bool:
    """Whether a scope has a say over a resource."""
    match scope:
        case "BestEffort":
            return resource == "pods"
        case "VolumeAttributesClass":
            return resource in _CLAIMS
        case _:
            return scope not in _SCOPES or resource in _PODS


def _check_scopes(spec: Mapping[str, Any], path: str) -> list[FieldError]:
    scopes = spec.get("scopes") or []
    errors: list[FieldError] = []
    for scope in scopes:
        if scope not in _SCOPES:
            errors.append(invalid(path, scopes, "unsupported scope"))
        standard = [name for name in sorted(spec.get("hard") or ()) if _is_standard(name)]
        errors += [invalid(path, scopes, "unsupported scope applied to resource") for name in standard if not _fits(scope, name)]
    return [*errors, *(invalid(path, scopes, "conflicting scopes") for pair in _PAIRS if pair <= set(scopes))]


def _check_requirement(requirement: Mapping[str, Any], path: str) -> list[FieldError]:
    scope, operator, values = (requirement.get(field) for field in ("scopeName", "operator", "values"))
    errors: list[FieldError] = []
    if scope in _ONLY_EXISTS and operator != "Exists":
        errors.append(invalid(f"{path}.operator", operator or "", _EXISTS_TEXT))
    if operator in {"In", "NotIn"}:
        if not values:
            text = "must be at least one value when `operator` is 'In' or 'NotIn' for scope selector"
            errors.append(required(f"{path}.values", text))
    elif operator in {"Exists", "DoesNotExist"}:
        if values:
            text = "must be no value when `operator` is 'Exist' or 'DoesNotExist' for scope selector"
            errors.append(invalid(f"{path}.values", values, text))
    else:
        errors.append(invalid(f"{path}.operator", operator or "", "not a valid selector operator"))
    return errors


def _check_selector(spec: Mapping[str, Any], path: str) -> list[FieldError]:
    selector = spec.get("scopeSelector") or {}
    requirements = selector.get("matchExpressions") or []
    shown = {"MatchExpressions": [internal_form(each, ("scopeName", "operator", "values")) for each in requirements]}
    errors: list[FieldError] = []
    for requirement in requirements:
        scope = requirement.get("scopeName", "")
        if scope not in _SCOPES:
            errors.append(invalid(f"{path}.scopeName", scope, "unsupported scope"))
        standard = [name for name in sorted(spec.get("hard") or ()) if _is_standard(name)]
        errors += [invalid(path, shown, "unsupported scope applied to resource") for name in standard if not _fits(scope, name)]
        errors += _check_requirement(requirement, path)
    scopes = {each.get("scopeName") for each in requirements}
    return [*errors, *(invalid(path, spec.get("scopes"), "conflicting scopes") for pair in _PAIRS if pair <= scopes)]


def check_quota(document: dict[str, Any]) -> list[FieldError]:
    """What is wrong with a quota."""
    spec = document["spec"]
    errors = _check_hard(spec.get("hard") or {}, "spec.hard")
    errors += _check_scopes(spec, "spec.scopes")
    return [*errors, *_check_selector(spec, "spec.scopeSelector.matchExpressions")]


def check_quota_update(new: dict[str, Any], old: dict[str, Any]) -> list[FieldError]:
    """What is wrong with a change of a quota: its scopes stay."""
    errors = check_quota(new)
    scopes = new["spec"].get("scopes")
    if set(scopes or ()) != set(old["spec"].get("scopes") or ()):
        errors.append(invalid("spec.scopes", scopes, "field is immutable"))
    return errors


def check_quota_status(new: dict[str, Any], _old: dict[str, Any]) -> list[FieldError]:
    """What is wrong with a change of what is used."""
    status = new.get("status") or {}
    return [error for field in ("hard", "used") for error in _check_hard(status.get(field) or {}, f"status.{field}")]


def _check_type(kind: str, path: str) -> list[FieldError]:
    if errors := named(kind, names.label_key, path):
        return errors
    if "/" not in kind and kind not in _LIMIT_TYPES:
        return [invalid(path, kind, "must be a standard limit type or fully qualified")]
    return []


def check_limit_range(document: dict[str, Any]) -> list[FieldError]:
    """What is wrong with a limit range."""
    errors: list[FieldError] = []
    kinds: list[str] = []
    for index, limit in enumerate(document["spec"].get("limits") or ()):
        own, kind = f"spec.limits[{index}]", limit.get("type", "")
        errors += _check_type(kind, f"{own}.type")
        if kind in kinds:
            errors.append(duplicate(f"{own}.type", kind))
        kinds.append(kind)
        errors += _check_limit(limit, kind, own)
    return errors


def _check_limit(limit: Mapping[str, Any], kind: str, path: str) -> list[FieldError]:
    check_name = check_container_name if kind in {"Pod", "Container"} else check_resource_name
    errors: list[FieldError] = []
    given: dict[str, Mapping[str, str]] = {}
    for field in _LIMITS:
        amounts = limit.get(field) or {}
        if kind == "Pod" and field in {"default", "defaultRequest"}:
            if amounts:
                errors.append(forbidden(f"{path}.{field}", "may not be specified when `type` is 'Pod'"))
            continue
        given[field] = amounts
        errors += [error for name in amounts for error in check_name(name, f"{path}.{field}[{name}]")]
    if kind == "PersistentVolumeClaim" and not any("storage" in given[field] for field in ("min", "max")):
        text = "either minimum or maximum storage value is required, but neither was provided"
        errors.append(required(f"{path}.limits", text))
    for name in dict.fromkeys(name for amounts in given.values() for name in amounts):
        errors += _check_order(name, {field: amounts[name] for field, amounts in given.items() if name in amounts}, path)
    return errors


_ORDER: Final[Sequence[tuple[str, str, str, str, str]]] = (
    ("min", "max", "min", "min", "min value {} is greater than max value {}"),
    ("min", "defaultRequest", "defaultRequest", "defaultRequest", "min value {} is greater than default request value {}"),
    ("defaultRequest", "max", "defaultRequest", "defaultRequest", "default request value {} is greater than max value {}"),
    (
        "defaultRequest",
        "default",
        "defaultRequest",
        "defaultRequest",
        "default request value {} is greater than default limit value {}",
    ),
    ("min", "default", "default", "min", "min value {} is greater than default value {}"),
    ("default", "max", "default", "max", "default value {} is greater than max value {}"),
)
"""What may not be above what; the field at fault, the field whose value is shown, and the sentence."""


def _check_order(name: str, amounts: Mapping[str, str], path: str) -> list[FieldError]:
    known = {field: quantity.parse(text) for field, text in amounts.items()}
    errors = [
        invalid(f"{path}.{at}[{name}]", amounts[shown], text.format(amounts[less], amounts[more]))
        for less, more, at, shown, text in _ORDER
        if less in known and more in known and known[less] > known[more]
    ]
    own = f"{path}.maxLimitRequestRatio[{name}]"
    if (ratio := known.get("maxLimitRequestRatio")) is not None:
        shown = amounts["maxLimitRequestRatio"]
        if ratio.millis < 1000:
            errors.append(invalid(own, shown, f"ratio {shown} is less than 1"))
        if "min" in known and "max" in known and known["min"]:
            most = float(known["max"]) / float(known["min"])
            if float(ratio) > most:
                errors.append(invalid(own, shown, f"ratio {shown} is greater than max/min = {most:f}"))
    pair = known.get("default"), known.get("defaultRequest")
    if not overcommits(name) and None not in pair and pair[0] != pair[1]:
        text = f"default value {amounts['default']} must equal to defaultRequest value {amounts['defaultRequest']} in {name}"
        errors.append(invalid(f"{path}.defaultRequest[{name}]", amounts["defaultRequest"], text))
    return errors
