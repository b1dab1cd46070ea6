"""Plugin capacity: queues with a guarantee, a deserved amount and a limit (capability) of their own, flat or as a tree."""

from pyroclast_scheduler.plugins.capacity.plugin import Capacity

__all__ = ["Capacity"]
