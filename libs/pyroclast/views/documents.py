"""Documents of the views' API in the form that `-o json` prints."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, TypeAlias

__all__ = ["API_VERSION", "Row", "document"]

API_VERSION: Final = "view.pyroclast.dev/v1"

Row: TypeAlias = Mapping[str, Any]


def document(kind: str, fields: Row) -> dict[str, Any]:
    """Return a document of the views' API."""
    return {"apiVersion": API_VERSION, "kind": kind, **fields}
