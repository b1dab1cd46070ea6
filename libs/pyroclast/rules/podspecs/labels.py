"""Rules for labels and label selectors."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pyroclast.rules.errors import FieldError, forbidden, invalid, invalid_for, required
from pyroclast.rules.names import label_value, qualified_name
from pyroclast.rules.values import Json, items, mapping, mappings, string_items, text


def check_labels(labels: Mapping[str, Any], path: str, errors: list[FieldError]) -> None:
    """Check the keys and values of labels."""
    for key, value in labels.items():
        check_label_key(key, path, errors)
        if problems := label_value(text(value)):
            errors += invalid_for(path, value, problems)


def check_label_key(key: str, path: str, errors: list[FieldError]) -> None:
    """Check one key of a label."""
    if problems := qualified_name(key):
        errors += invalid_for(path, key, problems)


def check_label_selector(selector: Json, path: str, errors: list[FieldError]) -> None:
    """Check `matchLabels` and `matchExpressions`."""
    given = mapping(selector)
    check_labels(mapping(given.get("matchLabels")), f"{path}.matchLabels", errors)
    for index, expression in mappings(given.get("matchExpressions")):
        where = f"{path}.matchExpressions[{index}]"
        operator, values = text(expression.get("operator")), items(expression.get("values"))
        if operator in ("In", "NotIn"):
            if not values:
                errors.append(required(f"{where}.values", "must be specified when `operator` is 'In' or 'NotIn'"))
        elif operator in ("Exists", "DoesNotExist"):
            if values:
                errors.append(forbidden(f"{where}.values", "may not be specified when `operator` is 'Exists' or 'DoesNotExist'"))
        else:
            errors.append(invalid(f"{where}.operator", operator, "not a valid selector operator"))
        check_label_key(text(expression.get("key")), f"{where}.key", errors)
        for position, value in enumerate(string_items(values)):
            errors += invalid_for(f"{where}.values[{position}]", value, label_value(value))


def check_matched_keys(holder: Mapping[str, Any], path: str, errors: list[FieldError]) -> None:
    """Check `matchLabelKeys` and `mismatchLabelKeys`: labels whose values come from the pod itself."""
    same, other = string_items(holder.get("matchLabelKeys")), string_items(holder.get("mismatchLabelKeys"))
    if not same and not other:
        return
    selector = mapping(holder.get("labelSelector"))
    for field, keys in (("matchLabelKeys", same), ("mismatchLabelKeys", other)):
        if keys and holder.get("labelSelector") is None:
            errors.append(forbidden(f"{path}.{field}", "must not be specified when labelSelector is not set"))
            continue
        for index, key in enumerate(keys):
            check_label_key(key, f"{path}.{field}[{index}]", errors)
    seen, there = set(mapping(selector.get("matchLabels"))), set(other)
    places = {key: index for index, key in reversed(list(enumerate(same)))}
    for _, expression in mappings(selector.get("matchExpressions")):
        key = text(expression.get("key"))
        if key in places and key in seen:
            errors.append(invalid(f"{path}[{places[key]}]", key, "exists in both matchLabelKeys and labelSelector"))
        seen.add(key)
    detail = "exists in both matchLabelKeys and mismatchLabelKeys"
    errors += [invalid(f"{path}.matchLabelKeys[{index}]", key, detail) for index, key in enumerate(same) if key in there]
