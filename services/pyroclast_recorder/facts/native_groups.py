"""What PodGroups of Kubernetes itself tell, and what follows from their pods. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Final

from pyroclast.api import keys
from pyroclast.api.enums import JobPhase, NativeConditionType, PodPhase
from pyroclast.api.records.native_groups import NativeCondition, NativePodGroup
from pyroclast.api.types import NATIVE_POD_GROUPS
from pyroclast_recorder.database.tables import Row
from pyroclast_recorder.facts.jobs import UNKNOWN_USER, kept_labels
from pyroclast_recorder.facts.pods import job_of
from pyroclast_recorder.facts.units import clipped, seconds
from pyroclast_recorder.hourly_usage import held

__all__ = ["KIND", "native_causes", "native_facts", "native_outcome", "native_phases"]

KIND: Final = NATIVE_POD_GROUPS.qualified
"""What rows of `jobs` have as their kind that are of such groups."""


def native_facts(group: NativePodGroup, now: int, *, is_deleted: bool) -> dict[str, Any] | None:
    """The columns of its row in `jobs`, without cluster and version.

    None for one that shows a Job of ours, which has a row of its own, or that no scheduler of ours has looked at.
    """
    meta, spec, queued = group.metadata, group.spec, _condition(group, NativeConditionType.QUEUED)
    if queued is None or job_of(group) is not None:
        return None
    queue = meta.labels.get(keys.SCHEDULING_QUEUE_NAME) or meta.annotations.get(keys.SCHEDULING_QUEUE_NAME)
    waits, started = queued.status == "True", _started(group)
    gang, owner = spec.scheduling_policy.gang, meta.controller
    row: dict[str, Any] = {
        "uid": meta.uid,
        "kind": KIND,
        "namespace": meta.namespace,
        "name": meta.name,
        "queue": clipped(queue, 253) if queue else None,
        "submitted_by": UNKNOWN_USER,
        "owner_kind": clipped(owner.kind, 63) if owner else None,
        "owner_name": clipped(owner.name, 253) if owner else None,
        "owner_uid": clipped(owner.uid, 63) if owner else None,
        "priority_class": clipped(spec.priority_class_name, 253) or None,
        "labels": kept_labels(meta),
        "reason": clipped(queued.reason, 128) if waits else None,
        "message": clipped(queued.message) or None if waits else None,
        "retries": 0,
        "gang_size": 1 if gang is None else gang.min_count,
        "created": seconds(meta.creation_timestamp),
        "let_in": started,
        "placed": started,
        "started": started,
        "removed": seconds(meta.deletion_timestamp) or (now if is_deleted else None),
    }
    return {**row, **native_outcome(row, ())}


def native_phases(group: NativePodGroup) -> Iterator[dict[str, Any]]:
    """The rows of `job_phases`."""
    for name, at in ((JobPhase.PENDING, seconds(group.metadata.creation_timestamp)), (JobPhase.RUNNING, _started(group))):
        if at is not None:
            yield {"job": group.metadata.uid, "at": at, "name": str(name), "message": None}


def native_causes(group: NativePodGroup) -> Iterator[dict[str, Any]]:
    """The rows of `job_causes`: why it waits."""
    queued = _condition(group, NativeConditionType.QUEUED)
    if queued is not None and queued.status == "True" and (at := seconds(queued.last_transition_time)) is not None:
        name, message = clipped(queued.reason, 63), clipped(queued.message) or None
        yield {"job": group.metadata.uid, "at": at, "name": name, "message": message}


def native_outcome(group: Row, pods: Sequence[Row]) -> dict[str, Any]:
    """The columns `queue`, `phase` and `ended`, which nothing in a group itself tells once it has pods.

    It has completed when as many pods succeeded as its gang needs, and none ended in another way after the last of them. While
    the phase of one that has ended is Running, its pods were deleted.

    Args:
        group: its row.
        pods: the rows of its pods.
    """
    times = [(pod, time) for pod in pods if (time := held(pod)) is not None]
    queue = min((pod["queue"] for pod, _ in times if pod["queue"]), default=group["queue"])
    if not times or any(pod["released_high"] is None for pod in pods):
        waits = group["reason"] is not None or group["placed"] is None
        return {"queue": queue, "phase": str(JobPhase.PENDING if waits else JobPhase.RUNNING), "ended": None}
    succeeded = [time.end or 0 for pod, time in times if pod["phase"] == PodPhase.SUCCEEDED]
    ended = _last(time.end or 0 for _, time in times)
    if len(succeeded) >= group["gang_size"] and _last(succeeded) == ended:
        phase = JobPhase.COMPLETED
    elif group["removed"] is not None and ended >= group["removed"]:
        phase = JobPhase.RUNNING
    else:
        has_failed = any(pod["phase"] == PodPhase.FAILED for pod, _ in times)
        phase = JobPhase.FAILED if has_failed else JobPhase.RUNNING
    return {"queue": queue, "phase": str(phase), "ended": ended}


def _last(times: Iterable[int]) -> int:
    return max(times, default=0)


def _started(group: NativePodGroup) -> int | None:
    """When as many of its pods had places as its gang needs."""
    scheduled = _condition(group, NativeConditionType.INITIALLY_SCHEDULED)
    return seconds(scheduled.last_transition_time) if scheduled is not None and scheduled.status == "True" else None


def _condition(group: NativePodGroup, kind: NativeConditionType) -> NativeCondition | None:
    return next((each for each in group.status.conditions if each.type == kind), None)
