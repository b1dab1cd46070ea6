"""The state of a Job in one word. Pure."""

from __future__ import annotations

from collections.abc import Collection
from typing import Final

from pyroclast_recorder.database.tables import Row

BY_REASON: Final = (
    ("OutOfMemory", frozenset({"OOMKilled"})),
    ("NodeFailed", frozenset({"NodeLost", "DeletionByTaintManager", "DeletionByPodGC", "NodeShutdown", "TerminationByKubelet"})),
    ("TimedOut", frozenset({"DeadlineExceeded"})),
    ("Evicted", frozenset({"Evicted", "PreemptionByScheduler", "GangReleased", "EvictionByEvictionAPI"})),
)
"""The state of a Job that did not complete, by the reasons of its pods, most severe first."""

ENDED_WELL: Final = frozenset({"Completed"})
RUNNING: Final = frozenset({"Pending", "Running", "Restarting", "Completing", "Aborting", "Terminating"})
STATES: Final = (
    *("Pending", "Running", "Restarting", "Completing", "Completed", "Aborting", "Aborted", "Terminating", "Terminated"),
    *("Failed", *(state for state, _ in BY_REASON), "Removed"),
)


def state_of(job: Row, reasons: Collection[str | None]) -> str:
    """Return the state of a Job.

    Args:
        job: the row of the Job.
        reasons: the reasons for which the pods of the Job ended.
    """
    phase = str(job["phase"] or "Pending")
    if phase in ENDED_WELL:
        return phase
    if phase in RUNNING:
        is_over = job["removed"] is not None or job["ended"] is not None
        return "Removed" if is_over else phase
    return next((state for state, words in BY_REASON if words.intersection(reasons)), phase)
