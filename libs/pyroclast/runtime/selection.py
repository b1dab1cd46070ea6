"""Selects the controllers to run by the list of `--controllers`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated

from pydantic import AfterValidator

from pyroclast.runtime.fields import CommaSeparated


def is_enabled(name: str, selection: Sequence[str]) -> bool:
    """Whether controller `name` runs. The first entry that names it decides; without such an entry, the controller runs if `*` is
    listed.

    An empty list means all controllers.
    """
    for entry in selection:
        if entry in (name, f"+{name}"):
            return True
        if entry == f"-{name}":
            return False
    return not selection or "*" in selection


def _each_once(selection: tuple[str, ...]) -> tuple[str, ...]:
    """Raise ValueError when a controller is named twice; unknown names are ignored."""
    seen = set()
    for entry in selection:
        name = entry.removeprefix("+").removeprefix("-")
        if name in seen and name != "*":
            raise ValueError(f"controllers option {name} cannot have both '-' and '+' prefixes")
        seen.add(name)
    return selection


Controllers = Annotated[CommaSeparated, AfterValidator(_each_once)]
"""The value of `--controllers`."""
