"""JSON values as expressions see them: texts of some formats are times, spans and bytes."""

from __future__ import annotations

import base64
import binascii
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Final, TypeAlias

from pyroclast_standalone.apiserver.documents.values import Json

from .errors import CelError
from .evaluate import unescaped
from .functions_times import duration, timestamp
from .types import BYTES, DURATION, TIMESTAMP, Type

__all__ = ["Reader", "reader_of"]

Reader: TypeAlias = Callable[[Json], Json]
_DAY: Final = len("2006-01-02")


def reader_of(kind: Type) -> Reader | None:
    """What makes a value of that type of a JSON value; None where they are the same. What cannot be read stays as it is."""
    match kind.kind:
        case TIMESTAMP.kind:
            return _text(_time)
        case DURATION.kind:
            return _text(duration)
        case BYTES.kind:
            return _text(_bytes)
        case "list" | "map":
            item = reader_of(kind.item) if kind.item is not None else None
            return None if item is None else _items(item)
        case "object":
            return _object(kind)
        case _:
            return None


def _items(item: Reader) -> Reader:
    def read(value: Json) -> Json:
        if isinstance(value, dict):
            return {name: item(each) for name, each in value.items()}
        return [item(each) for each in value] if isinstance(value, list) else value

    return read


def _object(kind: Type) -> Reader | None:
    readers = {unescaped(name): reader for name, inner in (kind.fields or {}).items() if (reader := reader_of(inner)) is not None}
    if not readers:
        return None

    def read(value: Json) -> Json:
        if not isinstance(value, dict):
            return value
        return {name: readers[name](each) if name in readers else each for name, each in value.items()}

    return read


def _text(convert: Reader) -> Reader:
    def read(value: Json) -> Json:
        if not isinstance(value, str):
            return value
        try:
            return convert(value)
        except (CelError, ValueError):
            return value

    return read


def _time(value: str) -> Json:
    return datetime.fromisoformat(value).replace(tzinfo=UTC) if len(value) == _DAY else timestamp(value)


def _bytes(value: str) -> bytes:
    try:
        return base64.b64decode(value, validate=True)
    except binascii.Error as error:
        raise ValueError(str(error)) from None
