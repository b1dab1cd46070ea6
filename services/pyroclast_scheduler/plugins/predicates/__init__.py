"""Plugin predicates: the feasibility of nodes by the rules of kube-scheduler."""

from pyroclast_scheduler.plugins.predicates.plugin import FILTERS, Predicates

__all__ = ["FILTERS", "Predicates"]
