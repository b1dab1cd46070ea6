"""Rules for tolerations, topology spread constraints and gates of a pod."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pyroclast.rules.errors import FieldError, duplicate, forbidden, invalid, invalid_for, required, unsupported
from pyroclast.rules.names import label_value, qualified_name
from pyroclast.rules.podspecs.options import Options, check_label_key, check_label_selector, check_matched_keys, check_member
from pyroclast.rules.values import Json, integer, mapping, mappings, string_items, text

NOT_POSITIVE = "must be greater than zero"

_EFFECTS = ("NoSchedule", "PreferNoSchedule", "NoExecute")
_UNSATISFIABLE = ("DoNotSchedule", "ScheduleAnyway")
_INCLUSION = ("Honor", "Ignore")


def check_tolerations(tolerations: Json, path: str, errors: list[FieldError]) -> None:
    """Check `tolerations` of a pod at `path`."""
    for index, toleration in mappings(tolerations):
        where = f"{path}[{index}]"
        key, operator = text(toleration.get("key")), text(toleration.get("operator"))
        value, effect = text(toleration.get("value")), text(toleration.get("effect"))
        if key:
            check_label_key(key, f"{where}.key", errors)
        elif operator != "Exists":
            errors.append(
                invalid(
                    f"{where}.operator",
                    operator,
                    'operator must be Exists when `key` is empty, which means "match all values and all keys"',
                )
            )
        if toleration.get("tolerationSeconds") is not None and effect != "NoExecute":
            errors.append(invalid(f"{where}.effect", effect, "effect must be 'NoExecute' when `tolerationSeconds` is set"))
        if operator in ("", "Equal"):
            if problems := label_value(value):
                errors.append(invalid(f"{where}.operator", value, ";".join(problems)))
        elif operator == "Exists":
            if value:
                errors.append(invalid(f"{where}.operator", value, "value must be empty when `operator` is 'Exists'"))
        else:
            compares = operator in ("Lt", "Gt")
            errors.append(unsupported(f"{where}.operator", operator, ("Equal", "Exists", *(("Lt", "Gt") if compares else ()))))
        if effect and effect not in _EFFECTS:
            errors.append(unsupported(f"{where}.effect", effect, _EFFECTS))


def check_spread(constraints: Json, path: str, errors: list[FieldError], options: Options) -> None:
    """Check `topologySpreadConstraints` of a pod at `path`."""
    last = {(text(each.get("topologyKey")), text(each.get("whenUnsatisfiable"))): index for index, each in mappings(constraints)}
    for index, constraint in mappings(constraints):
        where = f"{path}[{index}]"
        skew, topology = integer(constraint.get("maxSkew")), text(constraint.get("topologyKey"))
        action = text(constraint.get("whenUnsatisfiable"))
        if skew <= 0:
            errors.append(invalid(f"{where}.maxSkew", skew, NOT_POSITIVE))
        if not topology:
            errors.append(required(f"{where}.topologyKey", "can not be empty"))
        if action not in _UNSATISFIABLE:
            errors.append(unsupported(f"{where}.whenUnsatisfiable", action, _UNSATISFIABLE))
        if last[topology, action] > index:
            errors.append(duplicate(f"{where}.{{topologyKey, whenUnsatisfiable}}", f"{{{topology}, {action}}}"))
        _check_domains(constraint, action, where, errors)
        for key in ("nodeAffinityPolicy", "nodeTaintsPolicy"):
            check_member(constraint, key, _INCLUSION, where, errors)
        (check_matched_keys if options.current else _check_keys)(constraint, where, errors)
        check_label_selector(constraint.get("labelSelector"), f"{where}.labelSelector", errors)


def _check_keys(constraint: Mapping[str, Any], where: str, errors: list[FieldError]) -> None:
    """Check `matchLabelKeys` like API servers that do not yet merge these labels into the selector."""
    keys, selector = string_items(constraint.get("matchLabelKeys")), constraint.get("labelSelector")
    if keys and selector is None:
        errors.append(forbidden(f"{where}.matchLabelKeys", "must not be specified when labelSelector is not set"))
    given = mapping(selector)
    selected = {*mapping(given.get("matchLabels")), *(each.get("key") for _, each in mappings(given.get("matchExpressions")))}
    for index, key in enumerate(keys):
        check_label_key(key, f"{where}.matchLabelKeys[{index}]", errors)
        if key in selected:
            errors.append(invalid(f"{where}.matchLabelKeys[{index}]", key, "exists in both matchLabelKeys and labelSelector"))


def _check_domains(constraint: Mapping[str, Any], action: str, where: str, errors: list[FieldError]) -> None:
    domains = constraint.get("minDomains")
    if domains is None:
        return
    if integer(domains) <= 0:
        errors.append(invalid(f"{where}.minDomains", domains, NOT_POSITIVE))
    if action != "DoNotSchedule":
        detail = f"can only use minDomains if whenUnsatisfiable=DoNotSchedule, not {action}"
        errors.append(invalid(f"{where}.minDomains", domains, detail))


def check_gates(spec: Mapping[str, Any], path: str, errors: list[FieldError]) -> None:
    """Check readiness gates and scheduling gates of the pod at `path`."""
    for index, gate in mappings(spec.get("readinessGates")):
        condition = text(gate.get("conditionType"))
        where = f"{path}.readinessGates[{index}].conditionType"
        errors += invalid_for(where, condition, qualified_name(condition))
    seen: set[str] = set()
    for index, gate in mappings(spec.get("schedulingGates")):
        name, where = text(gate.get("name")), f"{path}.schedulingGates[{index}]"
        errors += invalid_for(where, name, qualified_name(name))
        if name in seen:
            errors.append(duplicate(where, name))
        seen.add(name)
