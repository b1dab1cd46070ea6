"""Who owns which field: `metadata.managedFields` after a create, an update or a patch."""

from __future__ import annotations

from typing import Any

from .schema import Node

__all__ = ["track_update"]


def track_update(
    new: dict[str, Any],
    old: dict[str, Any] | None,
    schema: Node,
    *,
    manager: str,
    api_version: str,
    now: str,
    subresource: str = "",
) -> None:
    """Sets `new["metadata"]["managedFields"]` for a write by `manager` that turned `old` (None on create) into `new`.

    Other managers lose what changed or went away; `manager` gains what it changed. `now` is an RFC 3339 time in seconds. Only
    `metadata` of `new` is changed in place. What the request itself says about managedFields counts only when it clears them
    (an empty list, or a list of one empty entry).
    """
    raise NotImplementedError
