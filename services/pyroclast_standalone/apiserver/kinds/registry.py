"""All built-in kinds whose rules are known; any other built-in kind gets the rules that all share."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from typing import Any, Final

from .builtin import BuiltinStrategy
from .pods import POD
from .rules import Rules
from .strategy import Strategy

__all__ = ["custom_strategy", "strategy_of"]

_RULES: Final[dict[tuple[str, str], Rules]] = {
    ("", "Pod"): POD,
}


@cache
def strategy_of(group: str, version: str, kind: str) -> Strategy:
    """The strategy of a built-in kind (the group of core kinds is empty)."""
    return BuiltinStrategy(group, version, kind, _RULES.get((group, kind), Rules()))


def custom_strategy(definition: Mapping[str, Any], version: str) -> Strategy:
    """The strategy of one served version of a CustomResourceDefinition."""
    raise NotImplementedError
