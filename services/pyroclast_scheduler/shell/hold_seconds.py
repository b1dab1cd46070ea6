"""For how long a reason to wait has to stand before it is written: what turns back soon is not worth a write."""

from __future__ import annotations

from typing import Final

from pyroclast.api.types import JOBS
from pyroclast.api.waiting_reasons import PendingReason, reason_of
from pyroclast_scheduler.model.groups import Group, GroupStatus
from pyroclast_scheduler.session.outcome import WaitingTask

__all__ = ["HOLD_SECONDS", "seconds_of_pod", "seconds_of_reason", "waiting_reason"]

HOLD_SECONDS: Final = 1.0
_ORDER_SECONDS: Final = 10.0
"""For what turns for all that wait whenever a job ends: there is room, which is promised to the first of them, and then none."""

_EARLY_SECONDS: Final = 2.5
"""Since the last member of a gang was made: as long as they come, it is not stuck."""

_MADE_SECONDS: Final = 30.0
"""The same where a Job makes them, which says itself what keeps it from it."""

_ROOM: Final = frozenset({PendingReason.QUEUE_FULL, PendingReason.CLUSTER_FULL, PendingReason.BEHIND_ANOTHER})


def seconds_of_reason(said: str, reason: str) -> float:
    """For how many seconds the reason of a group has to stand where another one is `said`, empty for none."""
    return _ORDER_SECONDS if said != reason and {said, reason} <= _ROOM else HOLD_SECONDS


def seconds_of_pod(waiting: WaitingTask, group: Group | None) -> float:
    """For how many seconds the reason of a pod of `group` has to stand."""
    if waiting.nominated:
        return 0.0
    if waiting.members is None:
        return HOLD_SECONDS
    maker = group.metadata.controller if group is not None else None
    return _MADE_SECONDS if maker is not None and maker.kind == JOBS.kind else _EARLY_SECONDS


def waiting_reason(status: GroupStatus) -> str:
    """Why a group waits, by its conditions; empty where they do not say."""
    return next(filter(None, (reason_of(each.message) for each in status.conditions)), "")
