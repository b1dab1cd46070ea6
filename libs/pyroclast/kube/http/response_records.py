"""Responses of the API server as records."""

from __future__ import annotations

from typing import Any, TypeVar

import msgspec
import structlog

from pyroclast.api.records.meta import Record
from pyroclast.kube.http.client import encode

log = structlog.get_logger()

R = TypeVar("R", bound=Record)


def record_of(answer: dict[str, Any], record: type[R]) -> R:
    """Return `answer` as `record`. `answer` is encoded first, because some records keep parts of the text."""
    return msgspec.json.decode(encode(answer), type=record)


def readable(answer: dict[str, Any], record: type[R]) -> R | None:
    """Return `answer` as `record`; None when it does not fit.

    A watch skips such an object too, because one object must not stop the program.
    """
    try:
        return msgspec.convert(answer, record, strict=False)
    except msgspec.ValidationError as error:
        metadata = answer.get("metadata") or {}
        log.warning("object.not_readable", kind=answer.get("kind"), name=metadata.get("name"), error=str(error))
        return None
