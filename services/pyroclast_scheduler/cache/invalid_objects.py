"""Faults: objects that make no sense, what is wrong with them, and what to tell it about."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from pyroclast.api.records.meta import Record
from pyroclast.api.types import ResourceType
from pyroclast_scheduler.model.dimensions import MOST, MOST_OF_ONE, Dimensions
from pyroclast_scheduler.model.faults import Fault

__all__ = ["LEFT_OUT", "Faults", "reason_of", "uncounted"]

LEFT_OUT: Final = "left out: "
"""Before the reason why no session sees an object."""


class Faults:
    """Those of objects that are there, one for each; they stand until the object changes."""

    def __init__(self) -> None:
        self._by_object: dict[str, Fault] = {}

    def set(self, kind: ResourceType, record: Record, reason: str) -> None:
        """Note what is wrong with an object; nothing if `reason` is empty."""
        if reason:
            self._by_object[_name(kind, record)] = Fault.of(kind, record, reason)
        else:
            self.clear(kind, record)

    def leave_out(self, kind: ResourceType, record: Record, reason: str) -> None:
        """Note why no session sees an object."""
        self.set(kind, record, f"{LEFT_OUT}{reason}")

    def clear(self, kind: ResourceType, record: Record) -> None:
        """The object is well, or gone."""
        if self._by_object:  # most often there are none, and this is asked of each pod
            self._by_object.pop(_name(kind, record), None)

    def reasons(self) -> dict[str, str]:
        """What is wrong, by kind and key (`pod namespace/name`)."""
        return {what: fault.reason for what, fault in self._by_object.items()}

    def all(self) -> frozenset[Fault]:
        """What is wrong with all of them."""
        return frozenset(self._by_object.values())


def reason_of(error: Exception) -> str:
    """What is wrong with an object that cannot be taken up because of `error`."""
    return str(error) if isinstance(error, ValueError) else f"{type(error).__name__}: {error}"


def uncounted(dimensions: Dimensions, names: Iterable[str]) -> list[str]:
    """What to tell an object of which some resources have no row; nothing if all have one."""
    missing = dimensions.missing(names)
    if not missing:
        return []
    bound = f"at most {MOST_OF_ONE} of one object count, and {MOST} in all"
    return [f"{len(missing)} of its resources do not count, {missing[0][:253]} among them: {bound}"]


def _name(kind: ResourceType, record: Record) -> str:
    return f"{kind.kind.lower()} {record.key}"
