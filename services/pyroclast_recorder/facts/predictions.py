"""What the scheduler foretold of the start of a Job, as it stands on its PodGroup."""

from __future__ import annotations

from typing import Any

from pyroclast.api import keys
from pyroclast.api.records.groups import PodGroup
from pyroclast.api.waiting import read_waiting
from pyroclast_recorder.facts.jobs import owner_of
from pyroclast_recorder.facts.units import clipped, seconds

__all__ = ["prediction_facts"]


def prediction_facts(group: PodGroup) -> dict[str, Any] | None:
    """The row of `predictions`; None where there is no estimate, or no Job."""
    job, text = owner_of(group), group.metadata.annotations.get(keys.WAITING)
    said = read_waiting(text) if job is not None and text else None
    if said is None or said.start is None:
        return None
    at, (earliest, likely, latest) = seconds(said.seen), map(seconds, said.start)
    if at is None or earliest is None or likely is None or latest is None or not earliest <= likely <= latest:
        return None
    return {"job": job, "at": at, "p10": earliest, "p50": likely, "p90": latest, "basis": clipped(said.basis)}
