"""OpenAPI v3 documents per group and version, with what kubectl reads from them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

__all__ = ["Served", "document"]


@dataclass(frozen=True, slots=True)
class Served:
    """A resource that a document describes. `schema` is the openAPIV3Schema of a custom resource, None for a built-in kind."""

    group: str
    version: str
    kind: str
    plural: str
    namespaced: bool
    verbs: tuple[str, ...]
    subresources: tuple[str, ...] = ()
    schema: Mapping[str, Any] | None = None


def document(group: str, version: str, served: Iterable[Served]) -> dict[str, Any]:
    """The document of one group and version (the group of core kinds is empty)."""
    raise NotImplementedError
