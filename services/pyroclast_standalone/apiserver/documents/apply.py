"""Server-side apply: merging a declared configuration into an object, with owners of fields and conflicts between them."""

from __future__ import annotations

from typing import Any

from .schema import Node

__all__ = ["apply"]


def apply(
    live: dict[str, Any] | None,
    applied: dict[str, Any],
    schema: Node,
    *,
    manager: str,
    api_version: str,
    now: str,
    force: bool = False,
    subresource: str = "",
) -> dict[str, Any]:
    """The object after `manager` applied `applied` to `live` (None when it does not exist yet); managedFields included.

    Neither argument is changed. An apply that changes nothing returns an object equal to `live`.

    Raises:
        ApplyConflict: others own fields that `applied` sets differently, and `force` is false; the causes name them.
        PatchFailure: `applied` does not fit the schema.
        Undecodable: `applied` carries managedFields, or lacks apiVersion or kind.
    """
    raise NotImplementedError
