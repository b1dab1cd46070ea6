"""Plugin deviceshare: pods share the cards of a node, each with a share of their memory and cores."""

from pyroclast_scheduler.plugins.deviceshare.plugin import DeviceShare

__all__ = ["DeviceShare"]
