"""Pieces of table cells that many kinds share."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

__all__ = ["containers_of", "selector_text"]

_SYMBOLS = {"In": "in", "NotIn": "notin"}


def containers_of(spec: Mapping[str, Any]) -> tuple[str, str]:
    """Names and images of the containers of a pod spec, each separated by commas."""
    containers = spec.get("containers") or ()
    return ",".join(each.get("name", "") for each in containers), ",".join(each.get("image", "") for each in containers)


def _requirement(expression: Mapping[str, Any]) -> str:
    key, operator = str(expression.get("key", "")), expression.get("operator", "")
    if operator == "Exists":
        return key
    if operator == "DoesNotExist":
        return f"!{key}"
    return f"{key} {_SYMBOLS.get(operator, operator)} ({','.join(sorted(expression.get('values') or ()))})"


def selector_text(selector: Mapping[str, Any] | None, *, empty: str = "<none>") -> str:
    """A LabelSelector as text; a plain map of labels counts as one."""
    if not selector:
        return empty
    labels = selector.get("matchLabels", {}) if {"matchLabels", "matchExpressions"} & set(selector) else selector
    parts = [(key, f"{key}={value}") for key, value in (labels or {}).items()]
    parts += [(each.get("key", ""), _requirement(each)) for each in selector.get("matchExpressions") or ()]
    return ",".join(text for _, text in sorted(parts)) or empty
