"""Why a PodGroup waits: the closed list of reasons, and how a message contains a reason behind Volcano's sentence."""

from __future__ import annotations

import re
from enum import StrEnum
from typing import Final

from pyroclast.api.enums import QueueState


class PendingReason(StrEnum):
    """The one current cause of a waiting Job or PodGroup, in the order of the stages. The earliest cause that applies is used.

    `waiting_codes` has the meaning of each cause, and what helps.
    """

    SUSPENDED = "Suspended"
    WAITS_FOR_JOB = "WaitsForJob"
    WAITS_FOR_TASK = "WaitsForTask"
    WAITS_FOR_ENTRY = "WaitsForEntry"
    CLAIM_MISSING = "ClaimMissing"
    PODS_REFUSED = "PodsRefused"
    NO_SCHEDULER = "NoScheduler"
    NOT_EXAMINED = "NotExamined"
    LEFT_OUT = "LeftOut"
    NOT_LET_IN = "NotLetIn"
    QUEUE_CLOSED = "QueueClosed"
    ABOVE_QUEUE_LIMIT = "AboveQueueLimit"
    ABOVE_CLUSTER = "AboveCluster"
    BUDGET_SPENT = "BudgetSpent"
    PERSON_LIMIT = "PersonLimit"
    NAMESPACE_QUOTA = "NamespaceQuota"
    QUEUE_FULL = "QueueFull"
    CLUSTER_FULL = "ClusterFull"
    HELD_BY_GUARANTEE = "HeldByGuarantee"
    BEHIND_ANOTHER = "BehindAnother"
    PODS_MISSING = "PodsMissing"
    GATED = "Gated"
    NO_NODE_READY = "NoNodeReady"
    NO_NODE_ALLOWED = "NoNodeAllowed"
    NO_NODE_BIG_ENOUGH = "NoNodeBigEnough"
    TOO_FEW_NODES = "TooFewNodes"
    TOPOLOGY_TOO_NARROW = "TopologyTooNarrow"
    KEPT_FOR_ANOTHER = "KeptForAnother"
    NODES_FULL = "NodesFull"
    ROOM_IS_COMING = "RoomIsComing"
    NODES_REFUSE = "NodesRefuse"
    BIND_REFUSED = "BindRefused"
    IMAGE_REFUSED = "ImageRefused"
    VOLUME_NOT_MOUNTED = "VolumeNotMounted"
    STARTING = "Starting"
    NODE_SILENT = "NodeSilent"
    CRASHING = "Crashing"


DUE: Final = " is due at "
"""The words in the message of a Job that stays Running only for the delayed action of a policy."""

_SUMMARY: Final = re.compile(rf"(?:^| )(?=(?:{'|'.join(PendingReason)}): )")


def closed_queue(queue: str, state: QueueState | None) -> str:
    """Return the text of `QUEUE_CLOSED`, which the scheduler writes on the PodGroup and the job controller on the Job."""
    return f"queue {queue} is {state}, so the job starts when it is opened again"


def missing_queue(queue: str) -> str:
    """Return the text of `LEFT_OUT` for a queue that does not exist."""
    return f"queue {queue} does not exist"


def silent(absence: str, last: str) -> str:
    """Return the text of `NO_SCHEDULER` with the summary of the last cause that the scheduler wrote; `last` may be empty."""
    return f"{absence}; the last cause was {last}" if last else absence


def joined(sentence: str, summary: str) -> str:
    """Return a message that consists of both texts; either may be empty."""
    return f"{sentence} {summary}" if sentence and summary else sentence or summary


def parted(message: str) -> tuple[str, str]:
    """Return the sentence and the summary of a message. The summary, `<reason>: <numbers>`, is empty when there is none."""
    found = _SUMMARY.search(message)
    return (message, "") if found is None else (message[: found.start()], message[found.end() :])


def summary_of(message: str) -> str:
    """Return the summary of a message; the whole message when it has none."""
    return parted(message)[1] or message


def reason_of(message: str) -> str:
    """Return the reason in a message; empty when there is none."""
    return parted(message)[1].partition(":")[0]
