"""Plugin predicates: where a pod may run at all, by the rules of Kubernetes' own scheduler."""

from pyroclast_scheduler.plugins.predicates.plugin import FILTERS, Predicates

__all__ = ["FILTERS", "Predicates"]
