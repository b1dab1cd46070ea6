"""Rules for node affinity and inter-pod affinity of a pod."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from pyroclast.rules.errors import FieldError, forbidden, invalid, invalid_for, required
from pyroclast.rules.names import dns_label, dns_subdomain, label_value
from pyroclast.rules.podspecs.options import check_label_key, check_label_selector, check_matched_keys
from pyroclast.rules.values import Json, integer, items, mapping, mappings, string_items, text

_REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
_PREFERRED = "preferredDuringSchedulingIgnoredDuringExecution"
_NOT_EMPTY_IN = "must be specified when `operator` is 'In' or 'NotIn'"
_NOT_SET_FOR = "may not be specified when `operator` is 'Exists' or 'DoesNotExist'"


def check_affinity(affinity: Json, path: str, errors: list[FieldError]) -> None:
    """Check `affinity` of the pod at `path`."""
    given = mapping(affinity)
    if (node := given.get("nodeAffinity")) is not None:
        _check_node_affinity(mapping(node), f"{path}.nodeAffinity", errors)
    for kind in ("podAffinity", "podAntiAffinity"):
        if (pods := given.get(kind)) is not None:
            _check_pod_affinity(mapping(pods), f"{path}.{kind}", errors)


def _check_node_affinity(affinity: Mapping[str, Any], path: str, errors: list[FieldError]) -> None:
    must = affinity.get(_REQUIRED)
    if must is not None:
        terms = mapping(must).get("nodeSelectorTerms")
        where = f"{path}.{_REQUIRED}.nodeSelectorTerms"
        if not items(terms):
            errors.append(required(where, "must have at least one node selector term"))
        for index, term in mappings(terms):
            _check_node_term(term, f"{where}[{index}]", errors, checks_values=True)
    for index, preference in mappings(affinity.get(_PREFERRED)):
        where = f"{path}.{_PREFERRED}[{index}]"
        if not 1 <= integer(preference.get("weight")) <= 100:
            errors.append(invalid(f"{where}.weight", preference.get("weight"), "must be in the range 1-100"))
        _check_node_term(mapping(preference.get("preference")), f"{where}.preference", errors, checks_values=False)


def _check_node_term(term: Mapping[str, Any], path: str, errors: list[FieldError], *, checks_values: bool) -> None:
    for index, expression in mappings(term.get("matchExpressions")):
        _check_node_expression(expression, f"{path}.matchExpressions[{index}]", errors, checks_values=checks_values)
    for index, expression in mappings(term.get("matchFields")):
        where, operator = f"{path}.matchFields[{index}]", text(expression.get("operator"))
        values = items(expression.get("values"))
        if operator in ("In", "NotIn"):
            if len(values) != 1:
                errors.append(
                    required(
                        f"{where}.values", "must be only one value when `operator` is 'In' or 'NotIn' for node field selector"
                    )
                )
        else:
            errors.append(invalid(f"{where}.operator", operator, "not a valid selector operator"))
        if text(expression.get("key")) != "metadata.name":
            errors.append(invalid(f"{where}.key", expression.get("key"), "not a valid field selector key"))
        else:
            for at, value in enumerate(string_items(values)):
                errors += invalid_for(f"{where}.values[{at}]", value, dns_subdomain(value))


def _check_node_expression(expression: Mapping[str, Any], path: str, errors: list[FieldError], *, checks_values: bool) -> None:
    operator, values = text(expression.get("operator")), items(expression.get("values"))
    check = _NODE_OPERATORS.get(operator)
    if check is None:
        errors.append(invalid(f"{path}.operator", operator, "not a valid selector operator"))
    else:
        check(values, f"{path}.values", errors)
    check_label_key(text(expression.get("key")), f"{path}.key", errors)
    for index, value in enumerate(string_items(values) if checks_values else ()):
        errors += invalid_for(f"{path}.values[{index}]", value, label_value(value))


def _check_some(values: list[Any], path: str, errors: list[FieldError]) -> None:
    if not values:
        errors.append(required(path, _NOT_EMPTY_IN))


def _check_none(values: list[Any], path: str, errors: list[FieldError]) -> None:
    if values:
        errors.append(forbidden(path, _NOT_SET_FOR))


def _check_one(values: list[Any], path: str, errors: list[FieldError]) -> None:
    if len(values) != 1:
        errors.append(required(path, "must be specified single value when `operator` is 'Lt' or 'Gt'"))


_NODE_OPERATORS: Mapping[str, Callable[[list[Any], str, list[FieldError]], None]] = {
    "In": _check_some,
    "NotIn": _check_some,
    "Exists": _check_none,
    "DoesNotExist": _check_none,
    "Gt": _check_one,
    "Lt": _check_one,
}


def _check_pod_affinity(affinity: Mapping[str, Any], path: str, errors: list[FieldError]) -> None:
    for index, term in mappings(affinity.get(_REQUIRED)):
        _check_pod_term(term, f"{path}.{_REQUIRED}[{index}]", errors)
    for index, weighted in mappings(affinity.get(_PREFERRED)):
        where = f"{path}.{_PREFERRED}[{index}]"
        if not 1 <= integer(weighted.get("weight")) <= 100:
            errors.append(invalid(f"{where}.weight", weighted.get("weight"), "must be in the range 1-100"))
        _check_pod_term(mapping(weighted.get("podAffinityTerm")), f"{where}.podAffinityTerm", errors)


def _check_pod_term(term: Mapping[str, Any], path: str, errors: list[FieldError]) -> None:
    if term.get("labelSelector") is not None:
        check_label_selector(term["labelSelector"], f"{path}.labelSelector", errors)
    if term.get("namespaceSelector") is not None:
        check_label_selector(term["namespaceSelector"], f"{path}.namespaceSelector", errors)
    for name in string_items(term.get("namespaces")):
        errors += invalid_for(f"{path}.namespace", name, dns_label(name))
    check_matched_keys(term, path, errors)
    topology = text(term.get("topologyKey"))
    if not topology:
        errors.append(required(f"{path}.topologyKey", "can not be empty"))
    check_label_key(topology, f"{path}.topologyKey", errors)
