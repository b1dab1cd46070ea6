"""Small checks that many kinds share."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, TypeVar

from pyroclast_standalone.apiserver.documents.errors import FieldError, invalid, required, unsupported
from pyroclast_standalone.apiserver.documents.names import NameRule

__all__ = ["check_fields", "child", "choice", "immutable", "named", "non_negative", "optional_choice", "required_name"]

_Told = TypeVar("_Told")


def child(path: str, field: str) -> str:
    """The path of a field, also of one of the whole object, whose path is empty."""
    return f"{path}.{field}" if path else field


def choice(holder: Mapping[str, Any], field: str, supported: Sequence[str], path: str) -> list[FieldError]:
    """`field` must be given and be one of `supported`."""
    value = holder.get(field)
    if not value:
        return [required(child(path, field))]
    return [] if value in supported else [unsupported(child(path, field), value, supported)]


def optional_choice(holder: Mapping[str, Any], field: str, supported: Sequence[str], path: str) -> list[FieldError]:
    """`field`, if given, must be one of `supported`."""
    value = holder.get(field)
    return [] if value is None or value in supported else [unsupported(child(path, field), value, supported)]


def non_negative(holder: Mapping[str, Any], fields: Iterable[str], path: str) -> list[FieldError]:
    """Numbers that may not be below zero."""
    return [
        invalid(child(path, field), value, "must be greater than or equal to 0")
        for field in fields
        if isinstance(value := holder.get(field), int) and value < 0
    ]


def named(value: str, rule: NameRule, path: str) -> list[FieldError]:
    """What `rule` says of a name."""
    sentences = rule(value)
    return [invalid(path, value, sentence) for sentence in sentences] if sentences else []


def required_name(holder: Mapping[str, Any], field: str, rule: NameRule, path: str) -> list[FieldError]:
    """`field` must be given and obey `rule`."""
    value = holder.get(field)
    if not value:
        return [required(child(path, field))]
    sentences = rule(value)
    return [invalid(child(path, field), value, sentence) for sentence in sentences] if sentences else []


def check_fields(
    holder: Mapping[str, Any], checks: Iterable[tuple[str, Callable[[Any, str], Iterable[_Told]]]], path: str
) -> list[_Told]:
    """What the check of each field says of its value, where there is one."""
    told: list[_Told] = []
    for field, check in checks:
        if field in holder and (value := holder[field]):
            told += check(value, f"{path}.{field}")
    return told


def immutable(new: Mapping[str, Any], old: Mapping[str, Any], field: str, path: str) -> list[FieldError]:
    """`field` may not change."""
    if new.get(field) == old.get(field):
        return []
    return [invalid(path, new.get(field), "field is immutable")]
