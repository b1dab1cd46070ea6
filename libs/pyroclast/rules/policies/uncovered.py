"""What policies cannot say: rules that need other objects, or more than CEL has."""

from __future__ import annotations

from typing import Final

__all__ = ["UNCOVERED"]

UNCOVERED: Final[tuple[tuple[str, str, str], ...]] = (
    ("Job", "the queue is there, open and has no children", "needs the queues"),
    ("Job", "the master task of plugin mpi is there", "needs the arguments of the plugin read"),
    ("Job", "dependencies do not go in a circle of three or more tasks", "CEL has no recursion"),
    (
        "Job",
        "the rest of the pod template (names, ports, volumes, probes, resources …)",
        "the API server says it when pods are made",
    ),
    ("Job", "an update that leaves out what admission added keeps it", "webhooks alone add it again"),
    ("Job", "warnings, and all faults in one answer with a cause per field", "policies have neither"),
    ("CronJob", "numbers of the schedule are in range; the time zone exists", "needs a parser and the time zone database"),
    ("PodGroup", "the queue is there and open", "needs the queues"),
    ("PodGroup", "an update without a queue stays in the queue of the namespace", "webhooks alone add it again"),
    ("Queue", "parents exist, are not too deep and not in use", "needs the queues"),
    ("Queue", "the budget of the annotation can be read", "CEL reads no JSON, and needs the time zone database"),
    ("Queue", "resources fit those of parents, siblings and children", "needs the queues"),
    ("Queue", "the path of the hierarchy is not above another queue's", "needs the queues"),
    ("Queue", "a queue with children, or with allocated pods, is not deleted", "needs the queues"),
    ("Pod", "resource groups of the admission configuration", "needs the configuration"),
    ("HyperNode", "regular expressions compile", "CEL fails on a broken one instead of telling"),
    ("JobFlow", "circles of three or more entries; control statements; names of loops", "CEL has no recursion"),
    ("JobFlow", "entries that have started stay, flows that run are not deleted", "needs who asks and the status"),
    ("JobTemplate", "all rules", "the rules of Jobs hold when the Job is made"),
)
"""Kind, rule, and why no policy covers it."""
