"""What is special to each kind: defaults, validation, update rules, columns, selectable fields; one module per API group."""

from .registry import builtin_strategies, custom_strategy, strategy_of
from .strategy import Strategy, Subresource, Verdict

__all__ = ["Strategy", "Subresource", "Verdict", "builtin_strategies", "custom_strategy", "strategy_of"]
