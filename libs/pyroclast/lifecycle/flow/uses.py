"""What the expressions of an entry use: which entries they read, and for which purpose.

The names of entries are read from the text of an expression, before any value exists, because the flow is a graph: an entry
starts after the entries that it reads. So each entry is named by a literal; `entries[parameters.x]` is refused.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from enum import Enum
from typing import Any, Final

from pyroclast.api.records import FlowEntry
from pyroclast.expressions import ExpressionError, members_read
from pyroclast.lifecycle.flow.patch import PatchError, decoded, patched
from pyroclast.lifecycle.flow.references import is_marked, script_faults, sources_of


class Purpose(Enum):
    """What the value of an expression decides."""

    CONDITION = "if.expression"
    CASE = "switch.cases"
    UNTIL = "for.until"
    ITEMS = "for.itemsFrom"
    PATCH = "patch"


_ASKS: Final = (Purpose.CONDITION, Purpose.CASE)
"""Purposes for which any outcome of an entry is enough. For the others, an entry that is read must have completed."""


@dataclass(frozen=True, slots=True)
class Uses:
    """The entries that an entry reads. `asked`: any outcome is enough; `needs`: they must have completed.

    `sources`: the expressions in the references of the patch. `fills_patch`: whether values must be put into the patch.
    `reads_outputs` and `reads_codes`: whether an expression reads outputs, or the exit codes of other entries.
    """

    asked: tuple[str, ...] = ()
    needs: tuple[str, ...] = ()
    sources: tuple[str, ...] = ()
    fills_patch: bool = False
    reads_outputs: bool = False
    reads_codes: bool = False


NO_USES: Final = Uses()
"""The uses of an entry without expressions."""


def patch_of(entry: FlowEntry) -> Any:  # noqa: ANN401 - JSON
    """Return the patch of an entry if it contains references; else None. PatchError: the patch is nested too deeply."""
    raw = bytes(entry.patch)
    if b"${" not in raw or not is_marked(raw.decode(errors="replace")):
        return None
    return decoded(raw)


def expressions_in(entry: FlowEntry) -> Iterator[tuple[Purpose, str, str]]:
    """Yield the purpose, the field and the text of each expression of an entry, except those in its patch."""
    if entry.condition is not None and entry.condition.expression:
        yield Purpose.CONDITION, "if.expression", entry.condition.expression
    for number, case in enumerate(entry.switch.cases if entry.switch is not None else ()):
        if case.expression:
            yield Purpose.CASE, f"switch.cases[{number}].expression", case.expression
    if entry.loop is not None and entry.loop.until:
        yield Purpose.UNTIL, "for.until", entry.loop.until
    if entry.loop is not None and entry.loop.items_from:
        yield Purpose.ITEMS, "for.itemsFrom", entry.loop.items_from


def uses_of(entry: FlowEntry) -> Uses:
    """Return what the expressions of an entry use. A faulty expression uses nothing; its evaluation reports the fault."""
    found = list(expressions_in(entry))
    sources: tuple[str, ...] = ()
    is_filled = False
    try:
        if (patch := patch_of(entry)) is not None:
            is_filled, sources = True, sources_of(patch)
    except PatchError:
        is_filled = True
    if not found and not is_filled:
        return NO_USES
    every = [*((purpose, source) for purpose, _, source in found), *((Purpose.PATCH, source) for source in sources)]
    asked = dict.fromkeys(name for purpose, source in every if purpose in _ASKS for name in entries_read(source))
    needs = dict.fromkeys(name for purpose, source in every if purpose not in _ASKS for name in entries_read(source))
    return Uses(
        tuple(asked),
        tuple(needs),
        sources,
        is_filled,
        reads_outputs=any("outputs" in source for _, source in every),
        reads_codes=any("exitCode" in source for purpose, source in every if purpose is not Purpose.UNTIL or needs),
    )


def entries_read(source: str) -> list[str]:
    """Return the names of the entries that an expression reads; none when it is faulty."""
    try:
        return [name for name in members_read(source, "entries") if name is not None]
    except ExpressionError:
        return []


def check_scripts(template: Mapping[str, Any], patch: Any, entry: FlowEntry) -> None:  # noqa: ANN401 - JSON
    """Raise PatchError when a value would become a part of a program of the Job."""
    has_item = entry.loop is not None and bool(entry.loop.items_from)
    for fault in script_faults(patched(template, patch), has_item=has_item):
        raise fault
