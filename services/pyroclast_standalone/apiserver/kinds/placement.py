"""Where a pod may run: affinity, spread over topologies, tolerations."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from pyroclast_standalone.apiserver.documents import names
from pyroclast_standalone.apiserver.documents.errors import FieldError, duplicate, forbidden, invalid, required, unsupported

from .checks import named, optional_choice
from .label_selectors import check_selector

__all__ = ["EFFECTS", "check_affinity", "check_node_selector", "check_spread", "check_tolerations"]

EFFECTS: Final = ("NoSchedule", "PreferNoSchedule", "NoExecute")
_REQUIRED: Final = "requiredDuringSchedulingIgnoredDuringExecution"
_PREFERRED: Final = "preferredDuringSchedulingIgnoredDuringExecution"
_SPREAD: Final = ("DoNotSchedule", "ScheduleAnyway")
_NO_SELECTOR: Final = "must not be specified when labelSelector is not set"


def check_tolerations(tolerations: Sequence[Mapping[str, Any]], path: str) -> list[FieldError]:
    """What is wrong with the taints that a pod bears."""
    errors: list[FieldError] = []
    for index, toleration in enumerate(tolerations):
        key, operator = toleration.get("key", ""), toleration.get("operator", "")
        value, effect = toleration.get("value", ""), toleration.get("effect", "")
        if key:
            if wrong := names.label_key(key):
                errors += [invalid(f"{path}[{index}].key", key, sentence) for sentence in wrong]
        elif operator != "Exists":
            text = 'operator must be Exists when `key` is empty, which means "match all values and all keys"'
            errors.append(invalid(f"{path}[{index}].operator", operator, text))
        if "tolerationSeconds" in toleration and effect != "NoExecute":
            errors.append(
                invalid(f"{path}[{index}].effect", effect, "effect must be 'NoExecute' when `tolerationSeconds` is set")
            )
        if operator in {"", "Equal"}:
            if wrong := names.label_value(value):
                errors.append(invalid(f"{path}[{index}].operator", value, ";".join(wrong)))
        elif operator == "Exists":
            if value:
                errors.append(invalid(f"{path}[{index}].operator", value, "value must be empty when `operator` is 'Exists'"))
        else:
            supported = ["Equal", "Exists", "Lt", "Gt"] if operator in {"Lt", "Gt"} else ["Equal", "Exists"]
            errors.append(unsupported(f"{path}[{index}].operator", operator, supported))
        if effect and effect not in EFFECTS:
            errors.append(unsupported(f"{path}[{index}].effect", effect, EFFECTS))
    return errors


def _check_expression(expression: Mapping[str, Any], path: str, *, checks_values: bool) -> list[FieldError]:
    errors: list[FieldError] = []
    operator, values = expression.get("operator", ""), expression.get("values") or []
    if operator in {"In", "NotIn"}:
        if not values:
            errors.append(required(f"{path}.values", "must be specified when `operator` is 'In' or 'NotIn'"))
    elif operator in {"Exists", "DoesNotExist"}:
        if values:
            text = "may not be specified when `operator` is 'Exists' or 'DoesNotExist'"
            errors.append(forbidden(f"{path}.values", text))
    elif operator in {"Gt", "Lt"}:
        if len(values) != 1:
            text = "must be specified single value when `operator` is 'Lt' or 'Gt'"
            errors.append(required(f"{path}.values", text))
    else:
        errors.append(invalid(f"{path}.operator", operator, "not a valid selector operator"))
    errors += named(expression.get("key", ""), names.label_key, f"{path}.key")
    if checks_values:
        for at, value in enumerate(values):
            if wrong := names.label_value(value):
                errors += [invalid(f"{path}.values[{at}]", value, sentence) for sentence in wrong]
    return errors


def _check_field(expression: Mapping[str, Any], path: str) -> list[FieldError]:
    errors: list[FieldError] = []
    operator, values = expression.get("operator", ""), expression.get("values") or []
    if operator not in {"In", "NotIn"}:
        errors.append(invalid(f"{path}.operator", operator, "not a valid selector operator"))
    elif len(values) != 1:
        text = "must be only one value when `operator` is 'In' or 'NotIn' for node field selector"
        errors.append(required(f"{path}.values", text))
    if (key := expression.get("key", "")) != "metadata.name":
        return [*errors, invalid(f"{path}.key", key, "not a valid field selector key")]
    errors += [error for at, value in enumerate(values) for error in named(value, names.dns_subdomain, f"{path}.values[{at}]")]
    return errors


def _check_node_term(term: Mapping[str, Any], path: str, *, checks_values: bool) -> list[FieldError]:
    errors: list[FieldError] = []
    for index, expression in enumerate(term.get("matchExpressions") or ()):
        errors += _check_expression(expression, f"{path}.matchExpressions[{index}]", checks_values=checks_values)
    for index, expression in enumerate(term.get("matchFields") or ()):
        errors += _check_field(expression, f"{path}.matchFields[{index}]")
    return errors


def check_node_selector(selector: Mapping[str, Any], path: str, *, checks_values: bool = True) -> list[FieldError]:
    """What is wrong with the terms of which a node must fit one."""
    terms, own = selector.get("nodeSelectorTerms") or [], f"{path}.nodeSelectorTerms"
    if not terms:
        return [required(own, "must have at least one node selector term")]
    return [
        error
        for index, term in enumerate(terms)
        for error in _check_node_term(term, f"{own}[{index}]", checks_values=checks_values)
    ]


def _check_label_keys(keys: Sequence[str], selector: Mapping[str, Any] | None, path: str) -> list[FieldError]:
    if not keys:
        return []
    if selector is None:
        return [forbidden(path, _NO_SELECTOR)]
    return [error for index, key in enumerate(keys) for error in named(key, names.label_key, f"{path}[{index}]")]


def _check_keys(holder: Mapping[str, Any], path: str) -> list[FieldError]:
    """Labels whose values come from the pod itself."""
    selector = holder.get("labelSelector")
    same, other = holder.get("matchLabelKeys") or [], holder.get("mismatchLabelKeys") or []
    if not same and not other:
        return []
    errors = _check_label_keys(same, selector, f"{path}.matchLabelKeys")
    errors += _check_label_keys(other, selector, f"{path}.mismatchLabelKeys")
    if selector is not None:
        seen = set(selector.get("matchLabels") or ())
        for expression in selector.get("matchExpressions") or ():
            key = expression.get("key", "")
            if key in same and key in seen:
                errors.append(invalid(f"{path}[{same.index(key)}]", key, "exists in both matchLabelKeys and labelSelector"))
            seen.add(key)
    text = "exists in both matchLabelKeys and mismatchLabelKeys"
    return [*errors, *(invalid(f"{path}.matchLabelKeys[{at}]", key, text) for at, key in enumerate(same) if key in other)]


def _check_pod_term(term: Mapping[str, Any], path: str) -> list[FieldError]:
    errors: list[FieldError] = []
    for field in ("labelSelector", "namespaceSelector"):
        if term.get(field) is not None:
            errors += check_selector(term[field], f"{path}.{field}")
    for namespace in term.get("namespaces") or ():
        errors += named(namespace, names.dns_label, f"{path}.namespace")
    errors += _check_keys(term, path)
    if not (key := term.get("topologyKey", "")):
        errors.append(required(f"{path}.topologyKey", "can not be empty"))
    errors += named(key, names.label_key, f"{path}.topologyKey")
    return errors


def _check_weight(term: Mapping[str, Any], path: str) -> list[FieldError]:
    weight = term.get("weight", 0)
    return [] if 1 <= weight <= 100 else [invalid(f"{path}.weight", weight, "must be in the range 1-100")]


def check_affinity(affinity: Mapping[str, Any], path: str) -> list[FieldError]:
    """What is wrong with the nodes and pods that a pod wants to be near to or away from."""
    errors: list[FieldError] = []
    if node := affinity.get("nodeAffinity"):
        own = f"{path}.nodeAffinity"
        if (must := node.get(_REQUIRED)) is not None:
            errors += check_node_selector(must, f"{own}.{_REQUIRED}")
        for index, preferred in enumerate(node.get(_PREFERRED) or ()):
            inner = f"{own}.{_PREFERRED}[{index}]"
            errors += _check_weight(preferred, inner)
            errors += _check_node_term(preferred.get("preference") or {}, f"{inner}.preference", checks_values=False)
    for kind in ("podAffinity", "podAntiAffinity"):
        rules = affinity.get(kind)
        if not rules:
            continue
        own = f"{path}.{kind}"
        for index, term in enumerate(rules.get(_REQUIRED) or ()):
            errors += _check_pod_term(term, f"{own}.{_REQUIRED}[{index}]")
        for index, weighted in enumerate(rules.get(_PREFERRED) or ()):
            inner = f"{own}.{_PREFERRED}[{index}]"
            errors += _check_weight(weighted, inner)
            errors += _check_pod_term(weighted.get("podAffinityTerm") or {}, f"{inner}.podAffinityTerm")
    return errors


def _check_domains(constraint: Mapping[str, Any], path: str) -> list[FieldError]:
    least, action = constraint.get("minDomains"), constraint.get("whenUnsatisfiable", "")
    if least is None:
        return []
    errors = [] if least > 0 else [invalid(f"{path}.minDomains", least, "must be greater than zero")]
    if action != "DoNotSchedule":
        text = f"can only use minDomains if whenUnsatisfiable=DoNotSchedule, not {action}"
        errors.append(invalid(f"{path}.minDomains", least, text))
    return errors


def check_spread(constraints: Sequence[Mapping[str, Any]], path: str) -> list[FieldError]:
    """What is wrong with how pods are to be spread."""
    errors: list[FieldError] = []
    kinds = [(each.get("topologyKey", ""), each.get("whenUnsatisfiable", "")) for each in constraints]
    for index, constraint in enumerate(constraints):
        own = f"{path}[{index}]"
        if (skew := constraint.get("maxSkew", 0)) <= 0:
            errors.append(invalid(f"{own}.maxSkew", skew, "must be greater than zero"))
        key, action = kinds[index]
        if not key:
            errors.append(required(f"{own}.topologyKey", "can not be empty"))
        if action not in _SPREAD:
            errors.append(unsupported(f"{own}.whenUnsatisfiable", action, _SPREAD))
        if kinds[index] in kinds[index + 1 :]:
            errors.append(duplicate(f"{own}.{{topologyKey, whenUnsatisfiable}}", f"{{{key}, {action}}}"))
        errors += _check_domains(constraint, own)
        for field in ("nodeAffinityPolicy", "nodeTaintsPolicy"):
            errors += optional_choice(constraint, field, ("Honor", "Ignore"), own)
        errors += _check_keys(constraint, own)
        if (selector := constraint.get("labelSelector")) is not None:
            errors += check_selector(selector, f"{own}.labelSelector")
    return errors
