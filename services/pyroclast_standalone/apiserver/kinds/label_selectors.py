"""Validation of LabelSelectors, in the API's words."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pyroclast_standalone.apiserver.documents import names
from pyroclast_standalone.apiserver.documents.errors import FieldError, forbidden, invalid, required
from pyroclast_standalone.apiserver.documents.metadata import check_labels

__all__ = ["check_selector"]


def check_selector(selector: Mapping[str, Any], path: str) -> list[FieldError]:
    """What is wrong with a LabelSelector."""
    errors = check_labels(selector.get("matchLabels"), f"{path}.matchLabels")
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
        errors += [invalid(f"{own}.key", key, sentence) for sentence in names.label_key(key)]
        for at, value in enumerate(values):
            errors += [invalid(f"{own}.values[{at}]", value, sentence) for sentence in names.label_value(value)]
    return errors
