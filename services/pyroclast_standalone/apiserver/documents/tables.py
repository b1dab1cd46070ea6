"""Tables: what `kubectl get` shows."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from .schema import description_of

__all__ = ["Column", "Printer", "custom_columns", "render"]


@dataclass(frozen=True, slots=True)
class Column:
    """A column; `priority` above 0 is shown only by `-o wide`.

    `doc` names a field of a built-in definition (`io.k8s.api.core.v1.PodSpec.nodeName`) whose description is the column's.
    """

    name: str
    type: str = "string"
    format: str = ""
    description: str = ""
    priority: int = 0
    doc: str = ""

    def wire(self) -> dict[str, Any]:
        """The entry of `columnDefinitions`."""
        return {
            "name": self.name,
            "type": self.type,
            "format": self.format,
            "description": description_of(self.doc) if self.doc else self.description,
            "priority": self.priority,
        }


class Printer(Protocol):
    """Prints the objects of one kind."""

    @property
    def columns(self) -> Sequence[Column]:
        """The columns, in order."""

    def cells(self, document: Mapping[str, Any], now: float) -> list[Any]:
        """One cell per column; `now` in seconds since the epoch."""

    def conditions(self, document: Mapping[str, Any]) -> list[dict[str, Any]]:
        """Conditions of the row: that a pod has completed."""


def custom_columns(columns: Sequence[Mapping[str, Any]]) -> Printer:
    """The printer of a custom resource with these `additionalPrinterColumns`."""
    raise NotImplementedError


def render(
    printer: Printer,
    documents: Iterable[Mapping[str, Any]],
    *,
    now: float,
    include: str = "Metadata",
    metadata: Mapping[str, Any] | None = None,
    definitions: bool = True,
) -> dict[str, Any]:
    """A `meta.k8s.io/v1 Table`.

    Args:
        printer: Whose columns.
        documents: The rows.
        now: Seconds since the epoch.
        include: `Metadata` (rows carry PartialObjectMetadata), `Object` or `None`.
        metadata: The table's own: resourceVersion, continue, remainingItemCount.
        definitions: False for the later events of a watch, whose `columnDefinitions` are null.
    """
    raise NotImplementedError
