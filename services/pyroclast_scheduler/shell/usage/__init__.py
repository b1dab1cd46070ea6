"""Measurements of the real usage of nodes, for plugins such as usage and rescheduling."""

from pyroclast_scheduler.shell.usage.collector import Collector

__all__ = ["Collector"]
