"""What jobs and queues have and may yet take: the sums that quota plugins compare."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import numpy as np

from pyroclast.api.enums import PodGroupPhase
from pyroclast_scheduler.framework.jobs import Job
from pyroclast_scheduler.model.columns import Floats
from pyroclast_scheduler.model.dimensions import PODS, Dimensions, Ints
from pyroclast_scheduler.model.statuses import ALLOCATED

__all__ = ["EPSILON", "copies_within", "elastic", "is_running_with_minimum", "reserved", "share", "short_names"]

EPSILON: Final = 0.1  # amounts that differ by less are equal, in every dimension


def reserved(job: Job, dimensions: Dimensions, *, less_allocated: bool) -> Ints:
    """What an admitted job will still take: its minimum, on demand less what it has, less what waits behind gates of others."""
    minimum = job.facts.minimum(dimensions)
    if minimum is None:
        return np.zeros(len(dimensions), dtype=np.int64)
    rest = np.maximum(minimum - job.allocated, 0) if less_allocated else minimum
    return np.maximum(rest - job.facts.behind_gates(dimensions), 0) if job.facts.gated else rest


def is_running_with_minimum(job: Job) -> bool:
    """Whether a job runs with at least its minimum of members, and may still be owed resources."""
    if job.phase is not PodGroupPhase.RUNNING or job.facts.min_resources is None:
        return False
    return sum(job.tally[status] for status in ALLOCATED) >= job.facts.min_available


def elastic(job: Job, dimensions: Dimensions) -> Ints:
    """What a job has beyond its minimum; all of it if it names none."""
    minimum = job.facts.minimum(dimensions)
    return job.allocated if minimum is None else np.maximum(job.allocated - minimum, 0)


def short_names(wanted: Floats | Ints, limit: Floats | Ints, request: Ints, names: Sequence[str]) -> list[str]:
    """Names of the dimensions that `request` asks for in which `wanted` exceeds `limit`; pods do not count."""
    over = (request > 0) & (wanted > limit)
    over[PODS] = False
    return [names[row] for row in np.flatnonzero(over).tolist()]


def copies_within(limit: Floats, taken: Floats | Ints, request: Ints) -> int:
    """How many times `request` can be added to `taken` without exceeding `limit` in what it asks for; pods do not count."""
    asked = request > 0
    asked[PODS] = False
    if not asked.any():
        return np.iinfo(np.int32).max
    return max(0, int(((limit[asked] - taken[asked]) // request[asked]).min()))


def share(part: Floats | Ints, whole: Floats | Ints) -> float:
    """The largest part of any dimension that `whole` has; a part of nothing is all of it."""
    known = whole >= EPSILON
    return float((part[known] / whole[known]).max()) if known.any() else 0.0
