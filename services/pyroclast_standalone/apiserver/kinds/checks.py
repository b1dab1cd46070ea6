"""Small checks for many kinds."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from pyroclast.rules.errors import FieldError, invalid, required, unsupported
from pyroclast.rules.names import NameRule


def child(path: str, field: str) -> str:
    """Return the path of a field. The path of the whole object is empty."""
    return f"{path}.{field}" if path else field


def choice(holder: Mapping[str, Any], field: str, supported: Sequence[str], path: str) -> list[FieldError]:
    """Check that `field` is set and is one of `supported`."""
    value = holder.get(field)
    if not value:
        return [required(child(path, field))]
    return [] if value in supported else [unsupported(child(path, field), value, supported)]


def optional_choice(holder: Mapping[str, Any], field: str, supported: Sequence[str], path: str) -> list[FieldError]:
    """Check that `field`, if it is set, is one of `supported`."""
    value = holder.get(field)
    return [] if value is None or value in supported else [unsupported(child(path, field), value, supported)]


def named(value: str, rule: NameRule, path: str) -> list[FieldError]:
    """Return the faults of a name by `rule`."""
    sentences = rule(value)
    return [invalid(path, value, sentence) for sentence in sentences] if sentences else []


def immutable(new: Mapping[str, Any], old: Mapping[str, Any], field: str, path: str) -> list[FieldError]:
    """Check that `field` does not change."""
    if new.get(field) == old.get(field):
        return []
    return [invalid(path, new.get(field), "field is immutable")]
