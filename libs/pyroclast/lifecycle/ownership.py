"""How an object names its controller: the owner that it goes with."""

from __future__ import annotations

from typing import Any

from pyroclast.api.records import Meta
from pyroclast.api.types import ResourceType

__all__ = ["controller_reference"]


def controller_reference(kind: ResourceType, meta: Meta) -> dict[str, Any]:
    """The owner reference that makes the object of that kind and metadata the one controller of another."""
    return {
        "apiVersion": kind.api_version,
        "kind": kind.kind,
        "name": meta.name,
        "uid": meta.uid,
        "controller": True,
        "blockOwnerDeletion": True,
    }
