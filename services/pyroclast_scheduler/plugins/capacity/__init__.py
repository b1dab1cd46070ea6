"""Plugin capacity: queues with a guarantee, a deserved amount and a limit of their own, side by side or in a tree."""

from pyroclast_scheduler.plugins.capacity.plugin import Capacity

__all__ = ["Capacity"]
