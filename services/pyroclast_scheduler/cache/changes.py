"""Defines which differences of pods, PodGroups and queues count as changes for sessions."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

import msgspec

from pyroclast.api import keys, records
from pyroclast.api.records.meta import ObjectRecord, Record
from pyroclast_scheduler.model.groups import Group
from pyroclast_scheduler.model.statuses import TaskStatus
from pyroclast_scheduler.model.tasks import TaskFacts

_COUNTED_APART: Final = frozenset({TaskStatus.SUCCEEDED, TaskStatus.FAILED, TaskStatus.RELEASING})


def count_alike(old: TaskFacts, new: TaskFacts) -> bool:
    """Whether both tasks use the same amounts of the same node."""
    if old.node != new.node or old.shape is not new.shape:
        return False
    return old.status is new.status or not (new.node and {old.status, new.status} & _COUNTED_APART)


def alike(old: TaskFacts, new: TaskFacts) -> bool:
    """Whether nothing changed that a session examines. Status reports of running pods must not start a session."""
    return old.status is new.status and old.node == new.node and old.shape is new.shape and _looked_at(old) == _looked_at(new)


def _looked_at(task: TaskFacts) -> tuple[object, ...]:
    return (
        task.gates,
        task.priority,
        task.job,
        task.role,
        task.part,
        task.is_preemptable,
        task.has_started,
        task.pod.metadata.labels,
        task.nominated,
        task.pod.status.resource_claim_statuses,
    )


def same_but_status(old: Group, new: Group) -> bool:
    """Whether two PodGroups differ at most in the counts and conditions of their status."""
    a, b = old.metadata, new.metadata
    return (
        old.spec == new.spec
        and _same_annotations(a.annotations, b.annotations)
        and a.labels == b.labels
        and old.status.phase == new.status.phase
    )


def same_but_version(old: Group | ObjectRecord, new: Group | Record) -> bool:
    """Whether two objects, in the fields that are decoded, differ at most in their resource version."""
    metadata = msgspec.structs.replace(old.metadata, resource_version=new.metadata.resource_version)
    return metadata == new.metadata and msgspec.structs.replace(old, metadata=metadata) == new


def same_queue(old: records.Queue, new: records.Queue) -> bool:
    """Whether two queues differ at most in the counts of their status. Plugins may read annotations, so these are compared."""
    a, b = old.metadata, new.metadata
    return (
        a.name == b.name
        and a.uid == b.uid
        and old.spec == new.spec
        and a.annotations == b.annotations
        and a.labels == b.labels
        and old.status.state == new.status.state
    )


def same_but_told(old: Group, new: Group) -> bool:
    """Whether two PodGroups differ at most in their version and in the scheduler's own annotation on why they wait."""
    if not _same_annotations(old.metadata.annotations, new.metadata.annotations):
        return False
    metadata = msgspec.structs.replace(old.metadata, annotations=new.metadata.annotations)
    return same_but_version(msgspec.structs.replace(old, metadata=metadata), new)


def _same_annotations(old: Mapping[str, str], new: Mapping[str, str]) -> bool:
    """Whether two sets of annotations are equal except for the scheduler's annotation on why the PodGroup waits."""
    if old == new:
        return True
    return {**old, keys.WAITING: ""} == {**new, keys.WAITING: ""}
