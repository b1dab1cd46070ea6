"""A fault: an object, or a part of an object, is invalid, and the scheduler ignores it."""

from __future__ import annotations

from dataclasses import dataclass

from pyroclast.api.records.meta import Record
from pyroclast.api.types import ResourceType
from pyroclast_scheduler.model.groups import Group


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
