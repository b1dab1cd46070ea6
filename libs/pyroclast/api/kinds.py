"""How the API server serves a kind, besides its schema: short names, columns, subresources.

This is separate from the models, because a model only describes an object.
"""

from __future__ import annotations

from dataclasses import dataclass

from pyroclast.api.types import ResourceType
from pyroclast.api.wire import ApiObject


@dataclass(frozen=True, slots=True)
class Column:
    """A column of `kubectl get`. A column of priority 1 is only shown with `-o wide`."""

    name: str
    type: str
    path: str
    priority: int = 0


AGE = Column("AGE", "date", ".metadata.creationTimestamp")


@dataclass(frozen=True, slots=True)
class CustomKind:
    """One kind of Pyroclast. `has_status`: whether the status is a subresource."""

    resource: ResourceType
    model: type[ApiObject]
    short_names: tuple[str, ...] = ()
    columns: tuple[Column, ...] = ()
    has_status: bool = True
