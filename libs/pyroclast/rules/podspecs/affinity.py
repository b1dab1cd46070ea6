"""Rules for node affinity and inter-pod affinity of a pod."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pyroclast.rules.errors import FieldError, invalid, invalid_for, required
from pyroclast.rules.names import dns_label, dns_subdomain
from pyroclast.rules.podspecs.options import check_expression, check_label_key, check_label_selector, check_matched_keys
from pyroclast.rules.values import Json, integer, items, mapping, mappings, string_items, text

_REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
_PREFERRED = "preferredDuringSchedulingIgnoredDuringExecution"


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
        where = f"{path}.matchExpressions[{index}]"
        check_expression(expression, where, errors, compares=True, checks_values=checks_values)
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
