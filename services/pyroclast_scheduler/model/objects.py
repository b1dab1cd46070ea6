"""Objects of further kinds that some plugins look at: budgets, quotas, hypernodes, volumes and the like, as records by key."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, TypeVar

from pyroclast.api.records.meta import Record
from pyroclast.api.types import ResourceType

__all__ = ["Objects", "Watch"]

T = TypeVar("T", bound=Record)


@dataclass(frozen=True, slots=True)
class Watch:
    """A kind that a plugin needs, and the record to read it as: it is watched while the plugin is configured.

    `key`: namespace/name of the only object that is needed; empty: all are. `is_optional`: there are clusters that do not know
    the kind; for the plugin they have none of its objects. `is_of_node`: an object says more of the node of the same name, and
    of no other.
    """

    kind: ResourceType
    record: type[Record]
    is_optional: bool = False
    is_of_node: bool = False
    key: str = ""


@dataclass(frozen=True, slots=True)
class Objects:
    """What was watched, by the record's type and then by namespace/name."""

    found: Mapping[type[Record], Mapping[str, Any]] = field(default_factory=dict)
    _by_namespace: dict[type[Record], dict[str, list[Any]]] = field(default_factory=dict, init=False, repr=False, compare=False)

    def of(self, record: type[T]) -> Mapping[str, T]:
        """All objects of one kind by namespace/name; empty if nobody asked for them. Not to be changed."""
        return self.found.get(record, {})

    def told_of(self, record: type[T]) -> Mapping[str, T]:
        """The same, for who tells by triggers which waiting jobs a change of each object concerns."""
        return self.of(record)

    def in_namespace(self, record: type[T], namespace: str) -> list[T]:
        """The objects of one kind in a namespace. Not to be changed."""
        if record not in self._by_namespace:
            grouped: dict[str, list[Any]] = {}
            for each in self.found.get(record, {}).values():
                grouped.setdefault(each.metadata.namespace, []).append(each)
            self._by_namespace[record] = grouped
        return self._by_namespace[record].get(namespace, [])
