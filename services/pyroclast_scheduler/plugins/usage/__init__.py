"""Plugin usage: nodes are judged by what they really use, not by what was asked for."""

from pyroclast_scheduler.plugins.usage.plugin import Usage

__all__ = ["Usage"]
