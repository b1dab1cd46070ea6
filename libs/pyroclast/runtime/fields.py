"""Types of settings that are lists of names or named switches, in all accepted notations."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated

from pydantic import BeforeValidator


def _split_names(value: object) -> object:
    """Split text at commas; a repeated flag is a list, whose elements stay as they are."""
    return [part.strip() for part in value.split(",") if part.strip()] if isinstance(value, str) else value


def _split_lists(value: object) -> object:
    if not isinstance(value, list):
        return _split_names(value)
    return [name.strip() for part in value for name in str(part).split(",") if name.strip()]


def _split_gates(value: object) -> object:
    names = _split_lists(value)
    if not isinstance(names, list):
        return names
    gates = {}
    for name in names:
        gate, equals, state = name.partition("=")
        if not equals or state.lower() not in {"true", "false"}:
            raise ValueError(f'"{name}" is not of the form Gate=true or Gate=false')
        gates[gate] = state.lower() == "true"
    return gates


Names = Annotated[tuple[str, ...], BeforeValidator(_split_names)]
"""A flag that is given once per value; in the environment and the file, a list or text with commas."""
CommaSeparated = Annotated[tuple[str, ...], BeforeValidator(_split_lists)]
"""A flag whose value is a list with commas; the flag may also be repeated."""
FeatureGates = Annotated[Mapping[str, bool], BeforeValidator(_split_gates)]
"""Feature gates in the form `Gate=true,Other=false`."""
