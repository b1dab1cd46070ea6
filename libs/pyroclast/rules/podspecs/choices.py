"""Checks of fields with a closed list of values, and of fields with a name."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from pyroclast.rules.errors import FieldError, invalid_for, required, unsupported
from pyroclast.rules.names import NameRule
from pyroclast.rules.podspecs.options import Options
from pyroclast.rules.values import text


def check_choice(
    holder: Mapping[str, Any], field: str, choices: tuple[str, ...], path: str, options: Options
) -> Iterable[FieldError]:
    """Check that `field` is one of `choices`; when defaults are set, also that `field` is not empty."""
    value = holder.get(field)
    if value:
        return () if value in choices else (unsupported(f"{path}.{field}", value, choices),)
    return (required(f"{path}.{field}"),) if options.has_defaults else ()


def check_name(holder: Mapping[str, Any], field: str, rule: NameRule, path: str, errors: list[FieldError]) -> None:
    """Check that `field` is set, and is a valid name by `rule`."""
    name = text(holder.get(field))
    if not name:
        errors.append(required(f"{path}.{field}"))
    elif problems := rule(name):
        errors += invalid_for(f"{path}.{field}", name, problems)
