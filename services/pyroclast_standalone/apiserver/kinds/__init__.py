"""What is special to each kind: defaults, validation, update rules, columns, selectable fields; one module per API group."""

from .registry import custom_strategy, strategy_of
from .strategy import Strategy, Verdict

__all__ = ["Strategy", "Verdict", "custom_strategy", "strategy_of"]
