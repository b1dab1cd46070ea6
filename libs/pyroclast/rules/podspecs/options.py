"""The differences between the API server's checks of pods and Volcano's of templates: an older library, and no defaults."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from pyroclast.rules.errors import FieldError, forbidden, invalid, invalid_for, required, unsupported
from pyroclast.rules.names import NameRule, label_value, qualified_name
from pyroclast.rules.values import Json, items, mapping, mappings, string_items, text


def check_labels(labels: Mapping[str, Any], path: str, errors: list[FieldError]) -> None:
    """Check the keys and values of labels."""
    for key, value in labels.items():
        check_label_key(key, path, errors)
        errors += invalid_for(path, value, label_value(text(value)))


def check_label_key(key: str, path: str, errors: list[FieldError]) -> None:
    """Check one key of a label."""
    errors += invalid_for(path, key, qualified_name(key))


def check_label_selector(selector: Json, path: str, errors: list[FieldError]) -> None:
    """Check `matchLabels` and `matchExpressions`."""
    given = mapping(selector)
    check_labels(mapping(given.get("matchLabels")), f"{path}.matchLabels", errors)
    for index, expression in mappings(given.get("matchExpressions")):
        check_expression(expression, f"{path}.matchExpressions[{index}]", errors)


def check_expression(
    expression: Mapping[str, Any], where: str, errors: list[FieldError], *, compares: bool = False, checks_values: bool = True
) -> None:
    """Check one expression of a selector. `compares`: whether `Gt` and `Lt` are operators."""
    operator, values = text(expression.get("operator")), items(expression.get("values"))
    if operator in ("In", "NotIn"):
        if not values:
            errors.append(required(f"{where}.values", "must be specified when `operator` is 'In' or 'NotIn'"))
    elif operator in ("Exists", "DoesNotExist"):
        if values:
            errors.append(forbidden(f"{where}.values", "may not be specified when `operator` is 'Exists' or 'DoesNotExist'"))
    elif compares and operator in ("Gt", "Lt"):
        if len(values) != 1:
            errors.append(required(f"{where}.values", "must be specified single value when `operator` is 'Lt' or 'Gt'"))
    else:
        errors.append(invalid(f"{where}.operator", operator, "not a valid selector operator"))
    check_label_key(text(expression.get("key")), f"{where}.key", errors)
    for index, value in enumerate(string_items(values) if checks_values else ()):
        errors += invalid_for(f"{where}.values[{index}]", value, label_value(value))


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


@dataclass(frozen=True, slots=True)
class Options:
    """How a pod is checked.

    `has_defaults`: whether defaults are set, so that a field with a default must not be absent. `current`: like the current API
    server, which accepts more forms and reports more faults. `pod_name`: None for a template.
    """

    has_defaults: bool
    current: bool
    pod_level_resources: bool = True
    pod_name: str | None = None


ADMISSION: Final = Options(has_defaults=False, current=False)
"""For templates of tasks, which are checked like Volcano does."""
SERVER: Final = Options(has_defaults=True, current=True)
"""For pods, which are checked like the current API server does."""


def check_choice(
    holder: Mapping[str, Any], field: str, choices: tuple[str, ...], path: str, options: Options
) -> Iterable[FieldError]:
    """Check that `field` is one of `choices`; when defaults are set, also that `field` is not empty."""
    value = holder.get(field)
    if value:
        return () if value in choices else (unsupported(f"{path}.{field}", value, choices),)
    return (required(f"{path}.{field}"),) if options.has_defaults else ()


def check_member(holder: Mapping[str, Any], field: str, choices: Sequence[str], path: str, errors: list[FieldError]) -> None:
    """Check that `field` is one of `choices` when it is set at all."""
    if (value := holder.get(field)) is not None and value not in choices:
        errors.append(unsupported(f"{path}.{field}", value, choices))


def check_name(holder: Mapping[str, Any], field: str, rule: NameRule, path: str, errors: list[FieldError]) -> None:
    """Check that `field` is set, and is a valid name by `rule`."""
    name = text(holder.get(field))
    if not name:
        errors.append(required(f"{path}.{field}"))
    elif problems := rule(name):
        errors += invalid_for(f"{path}.{field}", name, problems)
