"""The rules of each built-in kind: defaults, validation, updates, columns and selectable fields, in one module per API group."""

from pyroclast_standalone.apiserver.documents.structural import Verdict
from pyroclast_standalone.apiserver.kinds.builtins import Subresource
from pyroclast_standalone.apiserver.kinds.registry import builtin_strategies, custom_strategy, strategy_of
from pyroclast_standalone.apiserver.kinds.strategy import Strategy

__all__ = ["Strategy", "Subresource", "Verdict", "builtin_strategies", "custom_strategy", "strategy_of"]
