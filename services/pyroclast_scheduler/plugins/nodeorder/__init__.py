"""Plugin nodeorder: scores of nodes by the rules of kube-scheduler."""

from pyroclast_scheduler.plugins.nodeorder.plugin import NodeOrder

__all__ = ["NodeOrder"]
