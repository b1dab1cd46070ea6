"""Rules for restarts of a container: its own policy, and rules by exit codes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from pyroclast.rules.errors import FieldError, required, too_many, unsupported
from pyroclast.rules.values import items, mapping, mappings, text

_POLICIES: Final = ("Always", "Never", "OnFailure")
_ACTIONS: Final = ("Restart", "RestartAllContainers")
_MOST_RULES, _MOST_CODES = 20, 255


def check_restarts(container: Mapping[str, Any], where: str, errors: list[FieldError]) -> None:
    """Check `restartPolicy` and `restartPolicyRules` of the container at `where`."""
    policy, rules = container.get("restartPolicy"), items(container.get("restartPolicyRules"))
    if policy is None and rules:
        errors.append(required(f"{where}.restartPolicy", "must specify restartPolicy when restart rules are used"))
    elif policy is not None and policy not in _POLICIES:
        errors.append(unsupported(f"{where}.restartPolicy", policy, _POLICIES))
    if len(rules) > _MOST_RULES:
        errors.append(too_many(f"{where}.restartPolicyRules", len(rules), _MOST_RULES))
    for index, rule in mappings(rules):
        own = f"{where}.restartPolicyRules[{index}]"
        if (action := text(rule.get("action"))) not in _ACTIONS:
            errors.append(unsupported(f"{own}.action", action, _ACTIONS))
        if rule.get("exitCodes") is None:
            errors.append(required(f"{own}.exitCodes", "must be specified"))
            continue
        codes = mapping(rule["exitCodes"])
        if (operator := text(codes.get("operator"))) not in {"In", "NotIn"}:
            errors.append(unsupported(f"{own}.exitCodes.operator", operator, ("In", "NotIn")))
        if (count := len(items(codes.get("values")))) > _MOST_CODES:
            errors.append(too_many(f"{own}.exitCodes.values", count, _MOST_CODES))
