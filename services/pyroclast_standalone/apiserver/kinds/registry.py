"""All built-in kinds that the server knows, and the strategy of a custom resource."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from .strategy import Strategy

__all__ = ["BUILTIN", "custom_strategy", "strategy_of"]

BUILTIN: Final[tuple[Strategy, ...]] = ()


def strategy_of(group: str, version: str, kind: str) -> Strategy | None:
    """The strategy of a built-in kind."""
    return next((each for each in BUILTIN if (each.group, each.version, each.kind) == (group, version, kind)), None)


def custom_strategy(definition: Mapping[str, Any], version: str) -> Strategy:
    """The strategy of one served version of a CustomResourceDefinition."""
    raise NotImplementedError
