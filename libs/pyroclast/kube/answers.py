"""What the API server answers, as records."""

from __future__ import annotations

from typing import Any, TypeVar

import msgspec

from pyroclast.api.records.meta import Record
from pyroclast.kube.client import encode

__all__ = ["record_of"]

R = TypeVar("R", bound=Record)


def record_of(answer: dict[str, Any], record: type[R]) -> R:
    """`answer` as `record`, by way of its text, as parts of some records are kept as such."""
    return msgspec.json.decode(encode(answer), type=record)
