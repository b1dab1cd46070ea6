"""What is special to each kind: defaults, validation, update rules, columns, selectable fields; one module per API group."""

from .registry import BUILTIN, custom_strategy, strategy_of
from .strategy import Strategy, Subresource, Verdict

__all__ = ["BUILTIN", "Strategy", "Subresource", "Verdict", "custom_strategy", "strategy_of"]
