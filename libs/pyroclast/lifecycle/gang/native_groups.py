"""The native PodGroup of Kubernetes by which a Job shows its gang to other components: when a Job has one, and its content."""

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


def obstacle(job: Job, schedulers: Collection[str]) -> str:
    """Return why `job` has no native PodGroup; empty if it may have one. `schedulers`: the names of Pyroclast's schedulers."""
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
    """Return the native PodGroup of `job`, in the API version of `kind`. `obstacle` must be empty for `job`."""
    minimum = min_available(job.spec)
    spec: dict[str, Any] = {"schedulingPolicy": {"gang": {"minCount": minimum}}}
    if minimum == total_replicas(job.spec):
        spec["disruptionMode"] = {"all": {}}
    if (name := next(iter(_priority_classes(job)), "")) != "":
        spec["priorityClassName"] = name
    owner = controller_reference(JOBS, job.metadata)
    del owner["blockOwnerDeletion"]  # a cluster may require the right to update finalizers of Jobs for this field
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
