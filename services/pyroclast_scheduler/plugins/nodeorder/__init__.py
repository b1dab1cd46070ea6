"""Plugin nodeorder: which node is best, by the rules of Kubernetes' own scheduler."""

from pyroclast_scheduler.plugins.nodeorder.plugin import NodeOrder

__all__ = ["NodeOrder"]
