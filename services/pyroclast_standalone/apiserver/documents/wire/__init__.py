"""The wire forms of built-in kinds: for each message its fields with number, type, and whether an empty value is omitted.

The OpenAPI definitions do not contain these facts. Protobuf bodies need the numbers, and the meaning of an empty text, a zero or
a null depends on the types. `python -m tests.unit.apiserver_documents.wire_table DIR…` generates the table from the declarations
of the API types. The table is loaded on first use.
"""

from __future__ import annotations

import json
import lzma
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from importlib import resources
from typing import Any, Final

TABLE_FILE: Final = "messages.json.xz"


@dataclass(frozen=True, slots=True)
class Field:
    """A field of a message.

    Attributes:
        name: the name in JSON. Empty for a message that is flattened into its parent.
        number: the number on the wire. 0 if protobuf does not carry the field.
        type: `string`, `int32`, `int64`, `bool`, `float64`, `bytes`, `int` or the name of a message or named scalar.
        container: `list`, `map` or empty.
        is_pointer: whether an empty value differs from a missing one.
        omits_empty: whether an empty text, number, list or map is omitted from JSON.
        omits_zero: whether an empty time or other compound value is omitted too.
    """

    name: str
    number: int
    type: str
    container: str
    is_pointer: bool
    omits_empty: bool
    omits_zero: bool


@cache
def _load() -> Mapping[str, Any]:
    packed = resources.files(__package__).joinpath("data", TABLE_FILE).read_bytes()
    loaded: dict[str, Any] = json.loads(lzma.decompress(packed))
    return loaded


@cache
def messages() -> Mapping[str, tuple[Field, ...]]:
    """Return the fields of all built-in types (messages) in order, by name as in OpenAPI (`io.k8s.api.core.v1.Pod`)."""
    return {
        name: tuple(
            Field(field, number, kind, container, "p" in flags, "o" in flags or "z" in flags, "z" in flags)
            for field, number, kind, container, flags in fields
        )
        for name, fields in _load()["messages"].items()
    }


_TEXTS: Final = {"io.k8s.apimachinery.pkg.types.UID", "io.k8s.apimachinery.pkg.types.NodeName"}
MAP_OF_LISTS: Final = "map of lists"


@cache
def resolved(field: Field) -> tuple[str, str]:
    """Return the type and the container of a field by its named types. A map whose values are a named list is `MAP_OF_LISTS`."""
    kind, container = field.type, field.container
    while kind in _load()["named"]:
        kind, inner = _load()["named"][kind]
        container = MAP_OF_LISTS if (container, inner) == ("map", "list") else inner or container
    return "string" if kind in _TEXTS else kind, container
