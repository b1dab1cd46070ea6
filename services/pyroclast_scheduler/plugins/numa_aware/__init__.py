"""Plugin numa-aware: pods with exclusive CPUs are placed on nodes whose topology manager will admit them."""

from pyroclast_scheduler.plugins.numa_aware.plugin import NumaAware

__all__ = ["NumaAware"]
