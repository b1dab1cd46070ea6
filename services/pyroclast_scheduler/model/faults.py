"""A fault: something about an object that makes no sense, so that it, or that part of it, is passed over."""

from __future__ import annotations

from dataclasses import dataclass

from pyroclast.api.records.meta import Record
from pyroclast.api.types import ResourceType
from pyroclast_scheduler.model.groups import Group

__all__ = ["Fault"]


@dataclass(frozen=True, slots=True)
class Fault:
    """What is wrong with one object.

    `group`: the key of the group that it describes, empty if it describes none. `event`: the reason of the event about it.
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
        """That of `record`."""
        meta = record.metadata
        return cls(kind, meta.namespace, meta.name, meta.uid, reason)

    @classmethod
    def of_group(cls, group: Group, reason: str, event: str = "LeftOut") -> Fault:
        """That of the object which describes `group`."""
        meta = group.metadata
        return cls(group.kind, meta.namespace, meta.name, meta.uid, reason, group.key, event)
