"""Small JSON objects that all decisions make: merge patches (RFC 7386) and owner references."""

from __future__ import annotations

from collections.abc import Mapping
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


def merge_patch(old: Mapping[str, Any], new: Mapping[str, Any]) -> dict[str, Any]:
    """Return the patch that turns `old` into `new`; empty when they are equal.

    Neither object may contain null, because null in a merge patch removes a member.
    """
    patch: dict[str, Any] = dict.fromkeys(name for name in old if name not in new)
    for name, value in new.items():
        before = old.get(name)
        if isinstance(value, Mapping) and isinstance(before, Mapping):
            inner = merge_patch(before, value)
            if inner:
                patch[name] = inner
        elif value != before:
            patch[name] = value
    return patch
