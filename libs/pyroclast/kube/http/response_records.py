"""Responses of the API server as records."""

from __future__ import annotations

from collections.abc import Awaitable
from typing import Any, TypeVar

import structlog

from pyroclast.api.records.meta import Record
from pyroclast.api.records.reading import UNREADABLE, reader
from pyroclast.kube.basics.errors import Conflict, NotFound
from pyroclast.kube.http.client import encode

log = structlog.get_logger()

R = TypeVar("R", bound=Record)
Answer = dict[str, Any]


async def found(request: Awaitable[Answer]) -> Answer | None:
    """Return the answer to `request`; None when its object does not exist."""
    try:
        return await request
    except NotFound:
        return None


async def has_deleted(request: Awaitable[Answer]) -> bool:
    """Return whether `request`, a deletion by UID, found the object; else it is gone, and another one may have its name."""
    try:
        await request
    except (NotFound, Conflict):
        return False
    return True


def record_of(answer: dict[str, Any], record: type[R]) -> R:
    """Return `answer` as `record`; a field that cannot be read has its default, and is logged.

    Raises Unreadable: the object cannot be used without a field that cannot be read.
    """
    result: R
    result, faults = reader(record).read(encode(answer))
    if faults:
        _log("object.fields_not_readable", answer, faults)
    return result


def readable(answer: dict[str, Any], record: type[R]) -> R | None:
    """Return `answer` as `record`; None when it cannot be read.

    A watch skips such an object too, because one object must not stop the program.
    """
    try:
        return record_of(answer, record)
    except UNREADABLE as error:
        _log("object.not_readable", answer, str(error))
        return None


def _log(event: str, answer: dict[str, Any], error: str) -> None:
    metadata = answer.get("metadata") or {}
    log.warning(event, kind=answer.get("kind"), name=metadata.get("name"), error=error)
