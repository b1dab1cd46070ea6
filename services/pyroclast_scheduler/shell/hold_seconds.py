"""How long a reason of waiting must last before it is written. A reason that changes soon is not worth a write."""

from __future__ import annotations

from typing import Final

from pyroclast.api.types import JOBS
from pyroclast.api.waiting_reasons import PendingReason, reason_of
from pyroclast_scheduler.model.groups import Group, GroupStatus
from pyroclast_scheduler.session.outcome import WaitingTask

HOLD_SECONDS: Final = 1.0
_ORDER_SECONDS: Final = 10.0
"""For reasons that change for all waiting jobs whenever a job ends: there is room until it is reserved for the first job."""

_EARLY_SECONDS: Final = 2.5
"""The time after the creation of a member before a gang counts as stuck."""

_MADE_SECONDS: Final = 30.0
"""The same time for the gang of a Job, whose status reports why pods are not created."""

_ROOM: Final = frozenset({PendingReason.QUEUE_FULL, PendingReason.CLUSTER_FULL, PendingReason.BEHIND_ANOTHER})


def seconds_of_reason(said: str, reason: str) -> float:
    """Return for how many seconds the reason of a group must last. `said`: the present reason in its object, empty for none."""
    return _ORDER_SECONDS if said != reason and {said, reason} <= _ROOM else HOLD_SECONDS


def seconds_of_pod(waiting: WaitingTask, group: Group | None) -> float:
    """Return for how many seconds the reason of a pod of `group` must last."""
    if waiting.nominated:
        return 0.0
    if waiting.members is None:
        return HOLD_SECONDS
    maker = group.metadata.controller if group is not None else None
    return _MADE_SECONDS if maker is not None and maker.kind == JOBS.kind else _EARLY_SECONDS


def waiting_reason(status: GroupStatus) -> str:
    """Return the reason of a waiting group in its conditions; empty if there is none."""
    return next(filter(None, (reason_of(each.message) for each in status.conditions)), "")
