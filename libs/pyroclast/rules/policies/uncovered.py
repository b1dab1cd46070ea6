"""Rules that the policies cannot express, because they need other objects or more than CEL offers."""

from __future__ import annotations

from typing import Final

__all__ = ["UNCOVERED"]

UNCOVERED: Final[tuple[tuple[str, str, str], ...]] = (
    ("Job", "the queue exists, is open and has no children", "needs the queues"),
    ("Job", "the master task of plugin mpi exists", "needs the parsed arguments of the plugin"),
    ("Job", "dependencies form no cycle of three or more tasks", "CEL has no recursion"),
    (
        "Job",
        "all other rules of the pod template (names, ports, volumes, probes, resources …)",
        "the API server checks the pods at their creation",
    ),
    ("Job", "an update that omits the defaults of admission keeps them", "only webhooks can add them again"),
    ("Job", "warnings, and all faults in one response with a cause for each field", "policies support neither"),
    ("CronJob", "numbers of the schedule are in range; the time zone exists", "needs a parser and the time zone database"),
    ("PodGroup", "the queue exists and is open", "needs the queues"),
    ("PodGroup", "an update without a queue stays in the queue of the namespace", "only webhooks can add the queue again"),
    ("Queue", "parents exist, are not too deep and not in use", "needs the queues"),
    ("Queue", "the budget in the annotation is valid", "CEL cannot parse JSON, and has no time zone database"),
    ("Queue", "resources fit those of parents, siblings and children", "needs the queues"),
    ("Queue", "the path of the hierarchy does not contain another queue's path", "needs the queues"),
    ("Queue", "a queue with children, or with allocated pods, is not deleted", "needs the queues"),
    ("Pod", "resource groups of the admission configuration", "needs the configuration"),
    ("HyperNode", "regular expressions are valid", "CEL fails on an invalid one without naming it"),
    ("JobFlow", "cycles of three or more entries; control statements; names of loops", "CEL has no recursion"),
    ("JobFlow", "entries that have started do not change, running flows are not deleted", "needs the user and the status"),
    ("JobTemplate", "all rules", "the rules of Job apply when the Job is created"),
)
"""The kind, the rule, and why no policy covers it."""
