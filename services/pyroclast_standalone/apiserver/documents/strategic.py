"""Strategic merge patch: a merge patch that knows from the schema how each list merges."""

from __future__ import annotations

from typing import Any

from .schema import Node

__all__ = ["merge"]


def merge(target: dict[str, Any], patch: dict[str, Any], schema: Node) -> dict[str, Any]:
    """`target` with `patch` merged in as `schema` says. Neither is changed; untouched parts are shared.

    Raises:
        PatchFailure: a list item without its merge key, an unknown directive.
        MalformedPatch: the patch does not have the shape of the object.
    """
    raise NotImplementedError
