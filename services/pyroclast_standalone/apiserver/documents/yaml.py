"""YAML 1.1 bodies."""

from __future__ import annotations

from typing import Any

__all__ = ["parse_yaml"]


def parse_yaml(body: bytes, *, duplicates: bool = True) -> tuple[Any, list[str]]:
    """The value of `body` as JSON would have it, and a sentence for each key that is given twice.

    Raises:
        Undecodable: no YAML.
    """
    raise NotImplementedError
