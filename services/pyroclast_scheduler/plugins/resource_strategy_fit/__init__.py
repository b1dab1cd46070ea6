"""Plugin resource-strategy-fit: each resource has its own strategy, to fill nodes up or to spread pods."""

from pyroclast_scheduler.plugins.resource_strategy_fit.plugin import ResourceStrategyFit

__all__ = ["ResourceStrategyFit"]
