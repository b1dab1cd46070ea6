"""Objects of other kinds that plugins read, such as budgets, quotas, hypernodes and volumes, as records by key."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, TypeVar

from pyroclast.api.records.meta import Record
from pyroclast.api.types import ResourceType

T = TypeVar("T", bound=Record)


@dataclass(frozen=True, slots=True)
class Watch:
    """A kind of objects that a plugin reads. The scheduler watches the kind while the plugin is configured.

    Attributes:
        is_optional: whether the API server may lack the kind; the plugin then sees no objects.
        is_of_node: whether each object only concerns the node of the same name.
        key: namespace/name of the only object that is watched; empty if all objects are watched.
    """

    kind: ResourceType
    record: type[Record]
    is_optional: bool = False
    is_of_node: bool = False
    key: str = ""


@dataclass(frozen=True, slots=True)
class Objects:
    """The watched objects, by record type and then by namespace/name."""

    found: Mapping[type[Record], Mapping[str, Any]] = field(default_factory=dict)
    _by_namespace: dict[type[Record], dict[str, list[Any]]] = field(default_factory=dict, init=False, repr=False, compare=False)

    def of(self, record: type[T]) -> Mapping[str, T]:
        """Return all objects of one kind by namespace/name; none if no plugin watches it. It must not be changed."""
        return self.found.get(record, {})

    def hinted(self, record: type[T]) -> Mapping[str, T]:
        """Return the same as `of`. A plugin calls this method if its triggers name the objects that a waiting job depends on."""
        return self.of(record)

    def in_namespace(self, record: type[T], namespace: str) -> list[T]:
        """Return the objects of one kind in a namespace. The caller must not change the list."""
        if record not in self._by_namespace:
            grouped: dict[str, list[Any]] = {}
            for each in self.found.get(record, {}).values():
                grouped.setdefault(each.metadata.namespace, []).append(each)
            self._by_namespace[record] = grouped
        return self._by_namespace[record].get(namespace, [])
