"""Plugin drf: dominant resource fairness between jobs, and between the branches of a tree of queues."""

from pyroclast_scheduler.plugins.drf.plugin import Drf

__all__ = ["Drf"]
