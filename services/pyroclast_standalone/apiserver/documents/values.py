"""The types of JSON values."""

from __future__ import annotations

from typing import Any, TypeAlias

Json: TypeAlias = Any
"""Any JSON value."""

Object: TypeAlias = dict[str, Any]
"""A JSON object."""
