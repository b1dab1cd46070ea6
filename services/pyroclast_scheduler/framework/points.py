"""The extension points of a session and the flag of the configuration file that switches each off for a plugin."""

from __future__ import annotations

from enum import Enum
from typing import Final

__all__ = ["DEFAULT_OFF", "FLAGS", "Point"]


class Point(Enum):
    """Where plugins take part. The value names the flags of which one must be set; no flag: always."""

    JOB_ORDER = ("enableJobOrder",)
    QUEUE_ORDER = ("enableQueueOrder",)
    TASK_ORDER = ("enableTaskOrder",)
    SUB_JOB_ORDER = ("enabledSubJobOrder",)
    JOB_READY = ("enableJobReady",)
    JOB_PIPELINED = ("enableJobPipelined",)
    JOB_VALID = (None, "job valid")
    JOB_ENQUEUEABLE = ("enableJobEnqueued", "vote")
    JOB_ENQUEUED = ("enableJobEnqueued", "notice")
    JOB_STARVING = ("enableJobStarving",)
    OVERUSED = ("enabledOverused",)
    ALLOCATABLE = ("enabledAllocatable",)
    PREEMPTIVE = ("enablePreemptive",)
    PREEMPTABLE = ("enablePreemptable",)
    RECLAIMABLE = ("enableReclaimable",)
    VICTIM_QUEUE_ORDER = (None, "victim queue order")
    VICTIM_TASKS = ("enabledVictim",)
    PRE_PREDICATE = ("enablePredicate", "once per task")
    FILTER = ("enablePredicate", "per node")
    COUPLED_FILTER = ("enablePredicate", "depends on where others are")
    NODE_ORDER = ("enableNodeOrder", "each node by itself")
    BATCH_NODE_ORDER = ("enableNodeOrder", "candidates together")
    EVENTS = (None, "placements and evictions")
    CLOSE = (None, "session close")

    @property
    def flag(self) -> str | None:
        """The flag that gates this point, None if it cannot be switched off."""
        flag: str | None = self.value[0]
        return flag


DEFAULT_OFF: Final = frozenset({"enableHierarchy", "enabledClusterOrder"})
FLAGS: Final = frozenset(
    {
        "enableJobOrder",
        "enableHierarchy",
        "enableJobReady",
        "enableJobPipelined",
        "enableTaskOrder",
        "enablePreemptable",
        "enableReclaimable",
        "enablePreemptive",
        "enableQueueOrder",
        "enabledClusterOrder",
        "enablePredicate",
        "enableBestNode",
        "enableNodeOrder",
        "enableTargetJob",
        "enableReservedNodes",
        "enableJobEnqueued",
        "enabledVictim",
        "enableJobStarving",
        "enabledOverused",
        "enabledAllocatable",
        "enabledHyperNodeOrder",
        "enabledSubJobReady",
        "enabledSubJobPipelined",
        "enabledSubJobOrder",
        "enabledHyperNodeGradient",
    }
)
