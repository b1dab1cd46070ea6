"""The owner reference by which an object names its controller; the object is deleted together with the controller."""

from __future__ import annotations

from typing import Any

from pyroclast.api.records import Meta
from pyroclast.api.types import ResourceType


def controller_reference(kind: ResourceType, meta: Meta) -> dict[str, Any]:
    """Return the owner reference to an object of type `kind` with metadata `meta`, as the one controller."""
    return {
        "apiVersion": kind.api_version,
        "kind": kind.kind,
        "name": meta.name,
        "uid": meta.uid,
        "controller": True,
        "blockOwnerDeletion": True,
    }
