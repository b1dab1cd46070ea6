"""Faults: an object, or a part of an object, is invalid, and the scheduler ignores it. And the messages about them."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from pyroclast.api.records.meta import Record
from pyroclast.api.types import ResourceType
from pyroclast.lifecycle.gang.groups import Group
from pyroclast_scheduler.model.dimensions import MOST, MOST_OF_ONE, Dimensions


@dataclass(frozen=True, slots=True)
class Fault:
    """A fault of one object.

    `group`: the key of the group that the object describes, empty if it describes no group. `event`: the reason of the Kubernetes
    Event that reports the fault.
    """

    kind: ResourceType
    namespace: str
    name: str
    uid: str
    reason: str
    group: str = ""
    event: str = "LeftOut"

    @classmethod
    def of(cls, kind: ResourceType, record: Record, reason: str) -> Fault:
        """Return a fault of `record`."""
        meta = record.metadata
        return cls(kind, meta.namespace, meta.name, meta.uid, reason)

    @classmethod
    def of_group(cls, group: Group, reason: str, event: str = "LeftOut") -> Fault:
        """Return a fault of the object that describes `group`."""
        meta = group.metadata
        return cls(group.kind, meta.namespace, meta.name, meta.uid, reason, group.key, event)


LEFT_OUT: Final = "left out: "
"""The prefix of the reason for which an object is left out of all sessions."""


class Faults:
    """The faults of existing objects, at most one per object. A fault lasts until the object changes."""

    def __init__(self) -> None:
        self._by_object: dict[str, Fault] = {}

    def set(self, kind: ResourceType, record: Record, reason: str) -> None:
        """Store the fault of an object; an empty `reason` clears the fault."""
        if reason:
            self._by_object[_name(kind, record)] = Fault.of(kind, record, reason)
        else:
            self.clear(kind, record)

    def leave_out(self, kind: ResourceType, record: Record, reason: str) -> None:
        """Store the reason for which an object is left out of all sessions."""
        self.set(kind, record, f"{LEFT_OUT}{reason}")

    def clear(self, kind: ResourceType, record: Record) -> None:
        """Remove the fault of an object that is valid or deleted."""
        if self._by_object:  # a shortcut: it is called for each pod, and there are usually no faults
            self._by_object.pop(_name(kind, record), None)

    def reasons(self) -> dict[str, str]:
        """Return the reasons by kind and key (`pod namespace/name`)."""
        return {what: fault.reason for what, fault in self._by_object.items()}

    def of_kind(self, kind: ResourceType) -> dict[str, str]:
        """Return the reasons of the invalid objects of a kind by name."""
        return {fault.name: fault.reason for fault in self._by_object.values() if fault.kind is kind}

    def all(self) -> frozenset[Fault]:
        """Return the faults of all invalid objects."""
        return frozenset(self._by_object.values())


def reason_of(error: Exception) -> str:
    """Return the text of `error` as the reason for which an object is left out."""
    return str(error) if isinstance(error, ValueError) else f"{type(error).__name__}: {error}"


def uncounted(dimensions: Dimensions, names: Iterable[str]) -> list[str]:
    """Return a message for an object with resources that have no row; empty if all have one."""
    missing = dimensions.missing(names)
    if not missing:
        return []
    bound = f"at most {MOST_OF_ONE} of one object count, and {MOST} in all"
    return [f"{len(missing)} of its resources do not count, {missing[0][:253]} among them: {bound}"]


def _name(kind: ResourceType, record: Record) -> str:
    return f"{kind.kind.lower()} {record.key}"
