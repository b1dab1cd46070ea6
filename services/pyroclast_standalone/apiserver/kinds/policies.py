"""Expressions of webhooks and admission policies, checked when they are stored."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pyroclast_standalone.apiserver.documents.errors import FieldError, duplicate, required

__all__ = ["check_conditions", "check_policy"]


def check_conditions(conditions: list[dict[str, Any]], path: str) -> list[FieldError]:
    """What is wrong with match conditions."""
    errors: list[FieldError] = []
    seen: set[str] = set()
    for index, condition in enumerate(conditions):
        own = f"{path}[{index}]"
        name = condition.get("name", "")
        if not condition.get("expression", "").strip():
            errors.append(required(f"{own}.expression"))
        if not name:
            errors.append(required(f"{own}.name"))
        elif name in seen:
            errors.append(duplicate(f"{own}.name", name))
        seen.add(name)
    return errors


def check_policy(document: Mapping[str, Any]) -> list[FieldError]:
    """What is wrong with the expressions of a policy."""
    return check_conditions(document["spec"].get("matchConditions") or [], "spec.matchConditions")
