"""Validation of LabelSelectors, in the API's words."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pyroclast_standalone.apiserver.documents import names
from pyroclast_standalone.apiserver.documents.errors import FieldError, forbidden, invalid, required
from pyroclast_standalone.apiserver.documents.metadata import check_labels

__all__ = ["check_selector", "shown_selector", "sorted_labels"]


def sorted_labels(labels: Mapping[str, str] | None) -> dict[str, str] | None:
    """Labels in the order in which messages show them."""
    return dict(sorted(labels.items())) if labels else None


def shown_selector(selector: Mapping[str, Any]) -> dict[str, Any]:
    """A LabelSelector as messages show it."""
    shown = {**selector, "matchLabels": sorted_labels(selector.get("matchLabels"))}
    return {field: shown[field] for field in ("matchLabels", "matchExpressions") if shown.get(field)}


def check_selector(selector: Mapping[str, Any], path: str) -> list[FieldError]:
    """What is wrong with a LabelSelector."""
    labels = selector.get("matchLabels")
    errors = check_labels(labels, f"{path}.matchLabels") if labels else []
    for index, expression in enumerate(selector.get("matchExpressions") or ()):
        own = f"{path}.matchExpressions[{index}]"
        operator, values = expression.get("operator", ""), expression.get("values") or []
        if operator in {"In", "NotIn"} and not values:
            errors.append(required(f"{own}.values", "must be specified when `operator` is 'In' or 'NotIn'"))
        elif operator in {"Exists", "DoesNotExist"} and values:
            errors.append(forbidden(f"{own}.values", "may not be specified when `operator` is 'Exists' or 'DoesNotExist'"))
        elif operator not in {"In", "NotIn", "Exists", "DoesNotExist"}:
            errors.append(invalid(f"{own}.operator", operator, "not a valid selector operator"))
        key = expression.get("key", "")
        if wrong := names.label_key(key):
            errors += [invalid(f"{own}.key", key, sentence) for sentence in wrong]
        for at, value in enumerate(values):
            if wrong := names.label_value(value):
                errors += [invalid(f"{own}.values[{at}]", value, sentence) for sentence in wrong]
    return errors
