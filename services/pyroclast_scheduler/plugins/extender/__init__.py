"""Plugin extender: an external HTTP service takes part in scheduling decisions."""

from pyroclast_scheduler.plugins.extender.plugin import ExtenderPlugin

__all__ = ["ExtenderPlugin"]
