"""The PodGroup of Kubernetes itself by which a Job shows its gang to others: what it says, and when there is none."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from typing import Any

from pyroclast.api import keys
from pyroclast.api.records import Job
from pyroclast.api.types import JOBS, ResourceType
from pyroclast.lifecycle.gang import members
from pyroclast.lifecycle.gang.pods import template_of
from pyroclast.lifecycle.gang.size import min_available, total_replicas
from pyroclast.lifecycle.ownership import controller_reference

__all__ = ["manifest", "obstacle"]


def obstacle(job: Job, schedulers: Collection[str]) -> str:
    """Why `job` shows no such PodGroup; empty if it may. `schedulers`: the names of ours."""
    minimum = min_available(job.spec)
    if minimum < 1:
        return f"spec.minAvailable: {minimum}: a gang of at least 1 pod is expected"
    for i, spec in enumerate(_pod_specs(job)):
        name = spec.get("schedulerName") or job.spec.scheduler_name
        if name not in schedulers:
            ours = ", ".join(sorted(schedulers))
            return f"spec.tasks[{i}]: scheduler {name} places the pods; a scheduler of ours is expected: {ours}"
        if spec.get("schedulingGroup"):
            return f"spec.tasks[{i}].template.spec.schedulingGroup: the pods name another PodGroup; leave the field empty"
    classes = sorted(_priority_classes(job))
    if len(classes) > 1:
        first, second = (f"class {name}" if name else "no class" for name in classes[:2])
        return f"spec.tasks: tasks have different priorities, {first} and {second}; one priority for all is expected"
    return ""


def manifest(job: Job, kind: ResourceType) -> dict[str, Any]:
    """The PodGroup, served as `kind`, of a Job without an obstacle."""
    minimum = min_available(job.spec)
    spec: dict[str, Any] = {"schedulingPolicy": {"gang": {"minCount": minimum}}}
    if minimum == total_replicas(job.spec):
        spec["disruptionMode"] = {"all": {}}
    if (name := next(iter(_priority_classes(job)), "")) != "":
        spec["priorityClassName"] = name
    owner = controller_reference(JOBS, job.metadata)
    del owner["blockOwnerDeletion"]  # where it is guarded, it asks for the right to write finalizers of Jobs
    labels = {keys.JOB_NAME: job.metadata.name, keys.SCHEDULING_QUEUE_NAME: job.spec.queue}
    return {
        "apiVersion": kind.api_version,
        "kind": kind.kind,
        "metadata": {
            "name": members.group_name(job),
            "namespace": job.metadata.namespace,
            "labels": labels,
            "ownerReferences": [owner],
        },
        "spec": spec,
    }


def _priority_classes(job: Job) -> set[str]:
    return {spec.get("priorityClassName") or job.spec.priority_class_name for spec in _pod_specs(job)}


def _pod_specs(job: Job) -> Iterator[dict[str, Any]]:
    return (template_of(task).get("spec") or {} for task in job.spec.tasks)
