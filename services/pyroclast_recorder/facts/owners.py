"""The rows of flows, CronJobs, HyperJobs and native Jobs, which own Jobs or PodGroups. Pure."""

from __future__ import annotations

from typing import Any, Final

from pyroclast.api import keys
from pyroclast.api.records import batch
from pyroclast.api.records.flows import JobFlow
from pyroclast.api.records.hyperjobs import HyperJob
from pyroclast.api.records.jobs import CronJob
from pyroclast_recorder.facts.units import clipped, seconds

Owner = JobFlow | CronJob | HyperJob | batch.Job

COMPLETE: Final = "Complete"
FAILED: Final = "Failed"
SUSPENDED: Final = "Suspended"
_ENDS: Final = frozenset({COMPLETE, "Completed", FAILED})
"""The types of the conditions of an ended native Job or HyperJob."""


def owner_facts(owner: Owner, now: int, *, is_deleted: bool) -> dict[str, Any]:
    """Return the row of an owner, without the columns `cluster` and `version`. `now`: seconds since the epoch."""
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
    """Return the phase of an owner and the time of its end; None before the end and for a CronJob."""
    if isinstance(owner, JobFlow):
        return owner.status.state.phase, seconds(owner.status.completion_time)
    if isinstance(owner, CronJob):
        return SUSPENDED if owner.spec.suspend else "", None
    holds = {each.type: each for each in owner.status.conditions if each.status == "True"}
    if (end := next((each for name, each in holds.items() if name in _ENDS), None)) is not None:
        return end.type, seconds(end.last_transition_time)
    return SUSPENDED if SUSPENDED in holds else "", None
