"""The table of messages, loaded when first asked for."""

from __future__ import annotations

import json
import lzma
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from importlib import resources
from typing import Any, Final

__all__ = ["TABLE_FILE", "Field", "Message", "message_of", "messages"]

TABLE_FILE: Final = "messages.json.xz"


@dataclass(frozen=True, slots=True)
class Field:
    """A field of a message.

    Attributes:
        name: In JSON; empty for a message that is flattened into its holder.
        number: On the wire; 0 where protobuf does not carry the field.
        type: `string`, `int32`, `int64`, `bool`, `float64`, `bytes`, `int` or the name of a message or named scalar.
        container: `list`, `map` or empty.
        is_pointer: An empty value differs from an absent one.
        omits_empty: An empty text, number, list or map is left out of JSON.
        omits_zero: So is an empty time or other value of more than one part.
    """

    name: str
    number: int
    type: str
    container: str
    is_pointer: bool
    omits_empty: bool
    omits_zero: bool


@dataclass(frozen=True, slots=True)
class Message:
    """A message: `name` as in the OpenAPI definitions (`io.k8s.api.core.v1.Pod`), its fields in their order."""

    name: str
    fields: tuple[Field, ...]

    @property
    def short(self) -> str:
        """The name as error texts write it: `v1.Pod`."""
        return ".".join(self.name.split(".")[-2:])


@cache
def _load() -> Mapping[str, Any]:
    packed = resources.files(__package__).joinpath("data", TABLE_FILE).read_bytes()
    loaded: dict[str, Any] = json.loads(lzma.decompress(packed))
    return loaded


@cache
def messages() -> Mapping[str, Message]:
    """All messages by name."""
    return {
        name: Message(
            name,
            tuple(
                Field(field, number, kind, container, "p" in flags, "o" in flags or "z" in flags, "z" in flags)
                for field, number, kind, container, flags in fields
            ),
        )
        for name, fields in _load()["messages"].items()
    }


@cache
def named_types() -> Mapping[str, tuple[str, str]]:
    """Named types that are no messages: what they stand for, as (type, container)."""
    return {name: (kind, container) for name, (kind, container) in _load()["named"].items()}


def message_of(name: str) -> Message | None:
    """The message of that name, or None."""
    return messages().get(name)
