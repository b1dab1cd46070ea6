"""Makes the gang of a changed Job for a trial, with its PodGroup and pods, as the scheduler would see it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import msgspec

from pyroclast.api import records
from pyroclast.api.enums import PodGroupPhase
from pyroclast.api.records import reading
from pyroclast.lifecycle.gang import members, podgroups, pods
from pyroclast.lifecycle.times import format_time
from pyroclast.rules.jobs import defaults
from pyroclast.rules.patches import applied
from pyroclast_scheduler.cache.group_readers import volcano
from pyroclast_scheduler.model.job_facts import JobFacts
from pyroclast_scheduler.model.shapes import ShapeBook
from pyroclast_scheduler.model.tasks import TaskFacts, task_of

MOST_PODS: Final = 20_000
"""The largest number of pods of a gang in a trial. A larger gang would take too long between two sessions."""


class TooManyPods(ValueError):
    """The gang is too large for a trial."""


def job_of(body: Mapping[str, Any]) -> records.Job:
    """Return the record of a Job.

    Raises:
        ValueError: the body is not a valid Job.
    """
    return members.named(reading.convert(dict(body), records.Job, strict=False))


def as_created(body: Mapping[str, Any], now: float) -> dict[str, Any]:
    """Return a Job as the API server would create it from a manifest at time `now`, with the defaults of admission."""
    whole = applied(dict(body), defaults.default(body))
    meta = dict(whole.get("metadata") or {})
    name = meta.get("name") or f"{meta.get('generateName') or 'job-'}tried"
    namespace, created = meta.get("namespace") or "default", format_time(now)
    whole["metadata"] = {**meta, "name": name, "namespace": namespace, "uid": "tried", "creationTimestamp": created}
    whole.pop("status", None)
    return whole


def gang_of(
    body: Mapping[str, Any], priorities: Mapping[str, int], default: int, *, phase: PodGroupPhase = PodGroupPhase.PENDING
) -> JobFacts:
    """Return the facts of the gang of a Job whose pods are all pending.

    `priorities`: the values of PriorityClasses by name. `default`: the value without a class.

    Raises:
        ValueError: the body is not a valid Job, or a quantity is invalid.
        TooManyPods: the gang is too large for a trial.
    """
    job = job_of(body)
    if sum(task.replicas for task in job.spec.tasks) > MOST_PODS:
        raise TooManyPods(f"it has more than {MOST_PODS} pods")
    manifest = podgroups.manifest(job, priorities)
    manifest["metadata"] |= {"uid": f"tried-{job.metadata.uid}", "creationTimestamp": job.metadata.creation_timestamp}
    manifest["status"] = {"phase": str(phase)}
    group = reading.convert(manifest, records.PodGroup, strict=False)
    book, tasks = ShapeBook(), []
    for task in job.spec.tasks:
        tasks += _tasks(job, task, book, priorities)
    priority = priorities.get(group.spec.priority_class_name, default) if group.spec.priority_class_name else default
    return JobFacts.of(volcano.group_of(group), tasks, priority=priority, queue=group.spec.queue)


def _tasks(job: records.Job, task: records.Task, book: ShapeBook, priorities: Mapping[str, int]) -> list[TaskFacts]:
    """Return the pods of a task, which differ only in their names and indices."""
    if not task.replicas:
        return []
    manifest = pods.build(job, task, 0)
    manifest["spec"].setdefault("priority", priorities.get(manifest["spec"].get("priorityClassName") or "", 0))
    uid, replace = f"tried-{job.metadata.uid}-{task.name}", msgspec.structs.replace
    manifest["metadata"] |= {"uid": uid, "creationTimestamp": job.metadata.creation_timestamp}
    first = task_of(reading.convert(manifest, records.Pod, strict=False), book)
    return [
        replace(
            first,
            uid=f"{uid}-{index}",
            name=members.pod_name(job.metadata.name, task.name, index),
            index=index,
        )
        for index in range(task.replicas)
    ]
