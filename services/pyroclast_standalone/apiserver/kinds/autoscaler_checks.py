"""Validation of autoscalers, in the API's words."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from pyroclast.resources import quantity
from pyroclast_standalone.apiserver.documents import names
from pyroclast_standalone.apiserver.documents.errors import FieldError, forbidden, invalid, required, unsupported

from .checks import named, non_negative, optional_choice
from .resource_checks import check_container_name

__all__ = ["check_autoscaler", "check_autoscaler_status"]

_FIELDS: Final = {
    "Object": "object",
    "External": "external",
    "Pods": "pods",
    "Resource": "resource",
    "ContainerResource": "containerResource",
}
_KINDS: Final = tuple(sorted(_FIELDS))
_LONGEST_WINDOW, _LONGEST_PERIOD = 3600, 1800
_NO_AMOUNT: Final = "must set either a target raw value or a target utilization"
_BOTH: Final = "may not set both a target raw value and a target utilization"
_PER_POD: Final = "a target value for metric {} a per-pod target"


def _check_reference(reference: Mapping[str, Any], path: str, *, any_group: bool) -> list[FieldError]:
    errors: list[FieldError] = []
    for field in ("kind", "name"):
        value, own = reference.get(field, ""), f"{path}.{field}"
        errors += named(value, names.path_segment, own) if value else [required(own)]
    version = reference.get("apiVersion", "")
    if version.count("/") > 1:
        errors.append(invalid(f"{path}.apiVersion", version, f"unexpected GroupVersion string: {version}"))
    elif not any_group and "/" not in version:
        errors.append(invalid(f"{path}.apiVersion", version, "apiVersion must specify API group"))
    return errors


def _check_target(target: Mapping[str, Any], path: str) -> list[FieldError]:
    kind, utilization = target.get("type", ""), target.get("averageUtilization")
    errors = [] if kind else [required(f"{path}.type", "must specify a metric target type")]
    if kind not in {"Utilization", "Value", "AverageValue"}:
        errors.append(invalid(f"{path}.type", kind, "must be either Utilization, Value, or AverageValue"))
    for field in ("value", "averageValue"):
        amount = target.get(field)
        if amount is not None and quantity.parse(amount) <= quantity.parse("0"):
            errors.append(invalid(f"{path}.{field}", amount, "must be positive"))
        if field == "value" and utilization is not None and utilization < 1:
            errors.append(invalid(f"{path}.averageUtilization", utilization, "must be greater than 0"))
    return errors


def _check_metric(metric: Mapping[str, Any], path: str) -> list[FieldError]:
    name = metric.get("name", "")
    return named(name, names.path_segment, f"{path}.name") if name else [required(f"{path}.name", "must specify a metric name")]


def _check_resource(source: Mapping[str, Any], path: str, *, of_container: bool) -> list[FieldError]:
    name, container, target = source.get("name", ""), source.get("container", ""), source.get("target") or {}
    own = f"{path}.name"
    errors = check_container_name(name, own) if name else [required(own, "must specify a resource name")]
    if of_container:
        own = f"{path}.container"
        errors += named(container, names.dns_label, own) if container else [required(own, "must specify a container")]
    errors += _check_target(target, f"{path}.target")
    given = [field for field in ("averageUtilization", "averageValue") if target.get(field) is not None]
    if not given:
        errors.append(required(f"{path}.target.averageUtilization", _NO_AMOUNT))
    return errors if len(given) < 2 else [*errors, forbidden(f"{path}.target.averageValue", _BOTH)]


def _check_source(field: str, source: Mapping[str, Any], path: str) -> list[FieldError]:
    if field in {"resource", "containerResource"}:
        return _check_resource(source, path, of_container=field == "containerResource")
    target = source.get("target") or {}
    errors: list[FieldError] = []
    if field == "object":
        errors += _check_reference(source.get("describedObject") or {}, f"{path}.describedObject", any_group=True)
    errors += [*_check_metric(source.get("metric") or {}, f"{path}.metric"), *_check_target(target, f"{path}.target")]
    given = [each for each in ("value", "averageValue") if target.get(each) is not None]
    own = f"{path}.target.averageValue"
    if field == "pods":
        return errors if "averageValue" in given else [*errors, required(own, "must specify a positive target averageValue")]
    if not given:
        amount = "a target value or averageValue" if field == "object" else _PER_POD.format("or")
        errors.append(required(own, f"must set either {amount}"))
    if field == "external" and len(given) == 2:
        errors.append(forbidden(f"{path}.target.value", f"may not set both {_PER_POD.format('and')}"))
    return errors


def _check_metric_spec(metric: Mapping[str, Any], path: str) -> list[FieldError]:
    kind = metric.get("type", "")
    errors = [] if kind else [required(f"{path}.type", "must specify a metric source type")]
    if kind not in _FIELDS:
        errors.append(unsupported(f"{path}.type", kind, _KINDS))
    given = [field for field in _FIELDS.values() if metric.get(field) is not None]
    for field in given[:1]:
        errors += _check_source(field, metric[field], f"{path}.{field}")
    expected = _FIELDS.get(kind)
    if expected is None:
        errors.append(unsupported(f"{path}.type", kind, _KINDS))
    elif expected not in given:
        errors.append(required(f"{path}.{expected}", "must populate information for the given metric source"))
    others = [field for field in given if field != expected] if len(given) != 1 else []
    return [*errors, *(forbidden(f"{path}.{field}", "must populate the given metric source only") for field in others)]


def _check_rules(rules: Mapping[str, Any] | None, path: str) -> list[FieldError]:
    if rules is None:
        return []
    window, policies = rules.get("stabilizationWindowSeconds"), rules.get("policies") or ()
    errors: list[FieldError] = []
    own = f"{path}.stabilizationWindowSeconds"
    if window is not None and window < 0:
        errors.append(invalid(own, window, "must be greater than or equal to zero"))
    if window is not None and window > _LONGEST_WINDOW:
        errors.append(invalid(own, window, f"must be less than or equal to {_LONGEST_WINDOW}"))
    errors += optional_choice(rules, "selectPolicy", ("Disabled", "Max", "Min"), path)
    if not policies:
        errors.append(required(f"{path}.policies", "must specify at least one Policy"))
    for index, policy in enumerate(policies):
        errors += _check_scaling_policy(policy, f"{path}.policies[{index}]")
    tolerance = rules.get("tolerance")
    if tolerance is not None and quantity.parse(tolerance) < quantity.parse("0"):
        errors.append(invalid(f"{path}.tolerance", tolerance, "must be greater than or equal to 0"))
    return errors


def _check_scaling_policy(policy: Mapping[str, Any], path: str) -> list[FieldError]:
    kind, period = policy.get("type", ""), policy.get("periodSeconds", 0)
    errors = [] if kind in {"Pods", "Percent"} else [unsupported(f"{path}.type", kind, ["Percent", "Pods"])]
    errors += [
        invalid(f"{path}.{field}", policy.get(field, 0), "must be greater than zero")
        for field in ("value", "periodSeconds")
        if policy.get(field, 0) <= 0
    ]
    if period > _LONGEST_PERIOD:
        errors.append(invalid(f"{path}.periodSeconds", period, f"must be less than or equal to {_LONGEST_PERIOD}"))
    return errors


def check_autoscaler(document: dict[str, Any]) -> list[FieldError]:
    """What is wrong with an autoscaler."""
    spec = document["spec"]
    least, most, metrics = spec.get("minReplicas"), spec.get("maxReplicas", 0), spec.get("metrics") or ()
    errors: list[FieldError] = []
    if least is not None and least < 1:
        errors.append(invalid("spec.minReplicas", least, "must be greater than or equal to 1"))
    if most == 0:
        errors.append(required("spec.maxReplicas", "must be set and greater than 0"))
    elif most < 0:
        errors.append(invalid("spec.maxReplicas", most, "must be greater than or equal to 1"))
    if least is not None and most < least:
        errors.append(invalid("spec.maxReplicas", most, "must be greater than or equal to `minReplicas`"))
    errors += _check_reference(spec.get("scaleTargetRef") or {}, "spec.scaleTargetRef", any_group=False)
    for index, metric in enumerate(metrics):
        errors += _check_metric_spec(metric, f"spec.metrics[{index}]")
    if least == 0 and not any(metric.get("type") in {"Object", "External"} for metric in metrics):
        text = "must specify at least one Object or External metric to support scaling to zero replicas"
        errors.append(forbidden("spec.metrics", text))
    behavior = spec.get("behavior") or {}
    return [*errors, *(each for up in ("scaleUp", "scaleDown") for each in _check_rules(behavior.get(up), f"spec.behavior.{up}"))]


def check_autoscaler_status(new: dict[str, Any], _old: dict[str, Any]) -> list[FieldError]:
    """What is wrong with a change of an autoscaler's status."""
    return non_negative(new.get("status") or {}, ("currentReplicas", "desiredReplicas"), "status")
