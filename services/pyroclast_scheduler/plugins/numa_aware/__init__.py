"""Plugin numa-aware: pods with CPUs of their own go where the kubelet's topology manager will take them."""

from pyroclast_scheduler.plugins.numa_aware.plugin import NumaAware

__all__ = ["NumaAware"]
