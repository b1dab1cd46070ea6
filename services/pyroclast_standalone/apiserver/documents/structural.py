"""Structural schemas of custom resources: pruning, defaulting and validation, compiled once per version of a CRD."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from .errors import FieldError
from .schema import Node

__all__ = ["Structural", "Verdict", "check_schema"]


@dataclass(slots=True)
class Verdict:
    """What validation says. `warnings` are violations that an update did not introduce and that pass for that reason."""

    errors: list[FieldError] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)


class Structural:
    """A compiled `openAPIV3Schema` of one version.

    Attributes:
        node: The same schema for patches and apply.
    """

    node: Node

    def __init__(self, schema: Mapping[str, Any] | None) -> None:
        raise NotImplementedError

    def prune(self, document: dict[str, Any]) -> list[str]:
        """Removes, in place, fields that the schema does not know; returns their paths (`spec.foo`, `spec.list[0].bar`)."""
        raise NotImplementedError

    def default(self, document: dict[str, Any]) -> None:
        """Fills in defaults, in place; nulls of fields that may not be null give way to them."""
        raise NotImplementedError

    def validate(self, document: dict[str, Any], old: dict[str, Any] | None = None, *, subresource: str = "") -> Verdict:
        """All violations of the schema, of list types and of CEL rules; with `old`, unchanged values may stay as they are."""
        raise NotImplementedError


def check_schema(validation: Mapping[str, Any], path: str) -> list[FieldError]:
    """What is wrong with an `openAPIV3Schema` itself: not structural, bad defaults, rules that do not compile."""
    raise NotImplementedError
