"""Measurements of what nodes really use, for plugins such as usage and rescheduling."""

from pyroclast_scheduler.shell.usage.collector import Collector

__all__ = ["Collector"]
