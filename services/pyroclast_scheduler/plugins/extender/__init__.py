"""Plugin extender: an HTTP service of somebody else takes part in decisions."""

from pyroclast_scheduler.plugins.extender.plugin import ExtenderPlugin

__all__ = ["ExtenderPlugin"]
