"""Label selectors of API objects, and whether labels match a selector."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

_TAKES_VALUES: Final = {"In": True, "NotIn": True, "Exists": False, "DoesNotExist": False}


def matches(selector: Mapping[str, Any] | None, labels: Mapping[str, str]) -> bool:
    """Whether `labels` match `selector`. An absent selector (None) matches nothing, an empty one everything."""
    if selector is None:
        return False
    if any(labels.get(key) != value for key, value in (selector.get("matchLabels") or {}).items()):
        return False
    return all(_holds(each, labels) for each in selector.get("matchExpressions") or ())


def is_empty(selector: Mapping[str, Any] | None) -> bool:
    """Whether `selector` is absent or has no terms."""
    return not selector or not (selector.get("matchLabels") or selector.get("matchExpressions"))


def selected_labels(selector: Mapping[str, Any] | None) -> set[str]:
    """Return the keys of the labels that `selector` uses."""
    known = selector or {}
    return {*(known.get("matchLabels") or ()), *(each.get("key", "") for each in known.get("matchExpressions") or ())}


def is_valid(selector: Mapping[str, Any]) -> bool:
    """Whether every term has a key and a known operator, and has values exactly if its operator requires values."""
    return all(
        bool(term.get("key")) and bool(term.get("values")) == _TAKES_VALUES.get(term.get("operator", ""), not term.get("values"))
        for term in selector.get("matchExpressions") or ()
    )


def _holds(expression: Mapping[str, Any], labels: Mapping[str, str]) -> bool:
    value = labels.get(expression.get("key", ""))
    values = expression.get("values") or ()
    match expression.get("operator"):
        case "In":
            return value is not None and value in values
        case "NotIn":
            return value is None or value not in values
        case "Exists":
            return value is not None
        case "DoesNotExist":
            return value is None
        case _:
            return False
