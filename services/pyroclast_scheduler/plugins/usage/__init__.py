"""Plugin usage: nodes are rated by their measured usage, not by requests."""

from pyroclast_scheduler.plugins.usage.plugin import Usage

__all__ = ["Usage"]
