"""The type of what these functions work on."""

from __future__ import annotations

from typing import Any, TypeAlias

__all__ = ["Json", "Object"]

Json: TypeAlias = Any
"""Any value that a JSON text can hold."""

Object: TypeAlias = dict[str, Any]
"""A JSON object."""
