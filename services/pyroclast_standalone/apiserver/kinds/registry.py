"""All built-in kinds whose rules are known; any other built-in kind gets the rules that all share."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from typing import Any, Final

from pyroclast_standalone.apiserver.builtins import BUILTINS

from .builtin import BuiltinStrategy
from .custom import CustomStrategy
from .pods import POD
from .rules import Rules
from .strategy import Strategy

__all__ = ["builtin_strategies", "custom_strategy", "strategy_of"]

_RULES: Final[dict[tuple[str, str], Rules]] = {
    ("", "Pod"): POD,
}


@cache
def builtin_strategies() -> tuple[Strategy, ...]:
    """The strategies of all built-in resources that are served, in the order of the table."""
    return tuple(BuiltinStrategy(resource, _RULES.get((resource.group, resource.kind), Rules())) for resource in BUILTINS)


@cache
def _by_kind() -> Mapping[tuple[str, str, str], Strategy]:
    return {(each.group, each.version, each.kind): each for each in builtin_strategies()}


def strategy_of(group: str, version: str, kind: str) -> Strategy:
    """The strategy of a built-in kind (the group of core kinds is empty).

    Raises:
        KeyError: no built-in kind that is served.
    """
    return _by_kind()[group, version, kind]


def custom_strategy(definition: Mapping[str, Any], version: str) -> Strategy:
    """The strategy of one served version of a CustomResourceDefinition."""
    return CustomStrategy(definition, version)
