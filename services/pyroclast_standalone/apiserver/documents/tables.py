"""The tables of `kubectl get`."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, Protocol, TypeAlias

import orjson

from pyroclast.resources.go_text import go_value
from pyroclast_standalone.apiserver.documents.errors import Json, Object
from pyroclast_standalone.apiserver.documents.jsonpath import BadPath, compile_path
from pyroclast_standalone.apiserver.documents.schema import description_of
from pyroclast_standalone.times import parse_time, since

_META: Final = "io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta."


@dataclass(frozen=True, slots=True)
class Column:
    """A column of a table. Only `-o wide` shows a column with a `priority` above 0.

    `doc` is a field of a built-in definition (`io.k8s.api.core.v1.PodSpec.nodeName`) whose description the column has.
    """

    name: str
    type: str = "string"
    format: str = ""
    description: str = ""
    priority: int = 0
    doc: str = ""

    def wire(self) -> Object:
        """Return this column as an entry of `columnDefinitions` in a Table."""
        return {
            "name": self.name,
            "type": self.type,
            "format": self.format,
            "description": description_of(self.doc) if self.doc else self.description,
            "priority": self.priority,
        }


class Printer(Protocol):
    """Makes the table rows of the objects of one kind."""

    @property
    def columns(self) -> Sequence[Column]:
        """The columns of the table, in order."""

    def cells(self, document: Mapping[str, Json], now: float) -> list[Json]:
        """Return the cells of the table row of an object, one for each column. `now` is in seconds since the epoch."""

    def conditions(self, document: Mapping[str, Json]) -> list[Object]:
        """Return the conditions of the table row, such as that a pod has completed."""


def _text(value: Json) -> str:
    if isinstance(value, str):
        return value
    if isinstance(value, dict | list):
        return orjson.dumps(value, option=orjson.OPT_SORT_KEYS).decode()
    return go_value(value)


def _cell(kind: str, value: Json, now: float) -> Json:
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    match kind:
        case "string":
            return _text(value)
        case "integer":
            return int(value) if is_number else None
        case "number":
            return value if is_number else None
        case "boolean":
            return value if isinstance(value, bool) else None
        case "date" if isinstance(value, str):
            return since(value, now) if parse_time(value) is not None else "<invalid>"
        case _:
            return None


Reader: TypeAlias = Callable[[Mapping[str, Json], float], Json]
"""A function that returns the cell of an object. The time is in seconds since the epoch."""


def _reader(path: str, kind: str) -> Reader:
    try:
        find = compile_path(path)
    except BadPath:
        return lambda _document, _now: None

    def read(document: Mapping[str, Json], now: float) -> Json:
        found = find(document)
        return None if not found or found[0] is None else _cell(kind, found[0], now)

    return read


_NAME: Final = Column("Name", format="name", doc=f"{_META}name")
_AGE: Final = Column("Age", type="date", doc=f"{_META}creationTimestamp")


def custom_columns(columns: Sequence[Mapping[str, Json]]) -> tuple[Sequence[Column], Sequence[Reader]]:
    """Return the columns of a custom resource with these `additionalPrinterColumns`, and the readers of those after the name.

    Without any, the only one is the age.
    """
    if not columns:
        return (_NAME, _AGE), (_reader(".metadata.creationTimestamp", "date"),)
    shown = [
        Column(
            each["name"],
            each.get("type", "string"),
            each.get("format", ""),
            each.get("description") or f"Custom resource definition column (in JSONPath format): {each.get('jsonPath', '')}",
            each.get("priority", 0),
        )
        for each in columns
    ]
    return (_NAME, *shown), [_reader(each.get("jsonPath", ""), each.get("type", "string")) for each in columns]


def _shown(document: Mapping[str, Json], include: str) -> Json:
    match include:
        case "Object":
            return document
        case "None":
            return None
        case _:
            return {"kind": "PartialObjectMetadata", "apiVersion": "meta.k8s.io/v1", "metadata": document["metadata"]}


def render(
    printer: Printer,
    documents: Iterable[Mapping[str, Json]],
    *,
    now: float,
    include: str = "Metadata",
    metadata: Mapping[str, Json] | None = None,
    definitions: bool = True,
) -> Object:
    """Return a `meta.k8s.io/v1 Table`.

    `now`: seconds since the epoch. `include`: `Metadata` (rows contain PartialObjectMetadata), `Object` or `None`. `metadata`:
    the table's own metadata: resourceVersion, continue, remainingItemCount. `definitions`: False for the later events of a watch,
    whose `columnDefinitions` are null.
    """
    rows: list[Object] = []
    for document in documents:
        row: Object = {"cells": printer.cells(document, now)}
        if conditions := printer.conditions(document):
            row["conditions"] = conditions
        row["object"] = _shown(document, include)
        rows.append(row)
    return {
        "kind": "Table",
        "apiVersion": "meta.k8s.io/v1",
        "metadata": dict(metadata or {}),
        "columnDefinitions": [column.wire() for column in printer.columns] if definitions else None,
        "rows": rows,
    }
