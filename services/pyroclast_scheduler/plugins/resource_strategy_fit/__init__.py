"""Plugin resource-strategy-fit: for each resource its own strategy, nodes filled up or spread over."""

from pyroclast_scheduler.plugins.resource_strategy_fit.plugin import ResourceStrategyFit

__all__ = ["ResourceStrategyFit"]
