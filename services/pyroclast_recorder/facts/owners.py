"""What flows, CronJobs, HyperJobs, and Jobs of Kubernetes itself, tell of themselves. Pure."""

from __future__ import annotations

from typing import Any, Final

from pyroclast.api import keys
from pyroclast.api.records import batch
from pyroclast.api.records.flows import JobFlow
from pyroclast.api.records.hyperjobs import HyperJob
from pyroclast.api.records.jobs import CronJob
from pyroclast_recorder.facts.units import clipped, seconds

__all__ = ["COMPLETE", "FAILED", "Owner", "owner_facts"]

Owner = JobFlow | CronJob | HyperJob | batch.Job

COMPLETE: Final = "Complete"
FAILED: Final = "Failed"
SUSPENDED: Final = "Suspended"
_ENDS: Final = frozenset({COMPLETE, "Completed", FAILED})
"""Types of the conditions that end a Job of Kubernetes, or a HyperJob."""


def owner_facts(owner: Owner, now: int, *, is_deleted: bool) -> dict[str, Any]:
    """The columns of the row, without cluster and version."""
    meta = owner.metadata
    phase, ended = _end_of(owner)
    return {
        "uid": meta.uid,
        "kind": type(owner).__name__,
        "namespace": meta.namespace,
        "name": meta.name,
        "submitted_by": clipped(meta.annotations.get(keys.SUBMITTED_BY, ""), 253) or None,
        "phase": clipped(phase, 63) or None,
        "created": seconds(meta.creation_timestamp),
        "ended": ended,
        "removed": now if is_deleted else None,
    }


def _end_of(owner: Owner) -> tuple[str, int | None]:
    """The phase, and when it ended; a CronJob has no end."""
    if isinstance(owner, JobFlow):
        return owner.status.state.phase, seconds(owner.status.completion_time)
    if isinstance(owner, CronJob):
        return SUSPENDED if owner.spec.suspend else "", None
    holds = {each.type: each for each in owner.status.conditions if each.status == "True"}
    if (end := next((each for name, each in holds.items() if name in _ENDS), None)) is not None:
        return end.type, seconds(end.last_transition_time)
    return SUSPENDED if SUSPENDED in holds else "", None
