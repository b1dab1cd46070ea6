"""Types that are known before an expression is evaluated: of declared variables, of literals, of what functions return."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

__all__ = [
    "BOOL", "BYTES", "DOUBLE", "DURATION", "DYN", "INT", "NULL", "QUANTITY", "STRING", "TIMESTAMP", "TYPE", "Type",
    "list_of", "map_of", "object_of", "optional_of",
]  # fmt: skip


@dataclass(frozen=True, slots=True, eq=False)
class Type:
    """A type. `item` is the value of a list, a map or an optional; `fields` are those of an object, None when unknown."""

    kind: str
    item: Type | None = None
    key: Type | None = None
    fields: Mapping[str, Type] | None = None

    def __str__(self) -> str:
        inner = [str(each) for each in (self.key, self.item) if each is not None]
        return f"{self.kind}({', '.join(inner)})" if inner else self.kind


DYN, BOOL, INT, DOUBLE, STRING, BYTES, NULL, TYPE = map(Type, "dyn bool int double string bytes null_type type".split())  # noqa: SIM905
TIMESTAMP, DURATION, QUANTITY = map(Type, ("google.protobuf.Timestamp", "google.protobuf.Duration", "kubernetes.Quantity"))


def list_of(item: Type) -> Type:
    """A list of `item`."""
    return Type("list", item)


def map_of(key: Type, item: Type) -> Type:
    """A map from `key` to `item`."""
    return Type("map", item, key)


def optional_of(item: Type) -> Type:
    """An `item` that may be absent."""
    return Type("optional_type", item)


def object_of(**fields: Type) -> Type:
    """An object that has these fields and no others."""
    return Type("object", fields=fields)
