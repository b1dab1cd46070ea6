"""What the API server must know of a kind besides its schema: short names, columns, subresources.

Separate from the models because a model describes an object, and this describes how the kind is served.
"""

from __future__ import annotations

from dataclasses import dataclass

from pyroclast.api.types import ResourceType
from pyroclast.api.wire import ApiObject

__all__ = ["AGE", "Column", "CustomKind"]


@dataclass(frozen=True, slots=True)
class Column:
    """A column of `kubectl get`. One of priority 1 is shown only with `-o wide`."""

    name: str
    type: str
    path: str
    priority: int = 0


AGE = Column("AGE", "date", ".metadata.creationTimestamp")


@dataclass(frozen=True, slots=True)
class CustomKind:
    """One kind of ours. `has_status`: the status is written through a subresource of its own."""

    resource: ResourceType
    model: type[ApiObject]
    short_names: tuple[str, ...] = ()
    columns: tuple[Column, ...] = ()
    has_status: bool = True
