"""The subset of JSONPath that columns and selectable fields use."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

__all__ = ["compile_path"]


def compile_path(path: str) -> Callable[[Any], list[Any]]:
    """A function that finds all values under `path` (`.status.conditions[?(@.type=="Ready")].status`); missing keys find none.

    Raises:
        ValueError: bad syntax.
    """
    raise NotImplementedError
