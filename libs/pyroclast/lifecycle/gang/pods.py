"""The manifests of a Job's pods, built from the templates of its tasks, and the generated names of their volumes.

The generated names look random but depend only on the Job, so that after a crash no object is created twice.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping
from typing import Any, Final

import msgspec

from pyroclast.api import keys
from pyroclast.api.records import Job, JobVolume, Task
from pyroclast.api.types import JOBS
from pyroclast.lifecycle.gang import arrays, ends, members
from pyroclast.lifecycle.merging import controller_reference

_DEFAULT_TASK: Final = "default"
_INHERITED_ANNOTATIONS: Final = (keys.PREEMPTABLE, keys.COOLDOWN_TIME, keys.REVOCABLE_ZONE)
_INHERITED_LABELS: Final = (keys.PREEMPTABLE, keys.COOLDOWN_TIME)


def build(job: Job, task: Task, index: int, *, forwarding: bool = False, described_group: str = "") -> dict[str, Any]:
    """Return the manifest of pod `index` of `task`, before the plugins of the Job change it.

    Where the Job and the template set the same key of the Volcano API, the value of the Job is used. All other fields of the
    template's spec stay as they are. `forwarding`: whether the queue sends its Jobs to other clusters.
    `described_group`: what the PodGroup would contain if the Job has none; a template cannot set it.
    """
    template = template_of(task)
    meta = template.get("metadata") or {}
    spec = template.get("spec") or {}
    name = members.pod_name(job.metadata.name, task.name, index)
    if not spec.get("schedulerName"):
        spec["schedulerName"] = job.spec.scheduler_name
    if not spec.get("priorityClassName") and job.spec.priority_class_name:
        spec["priorityClassName"] = job.spec.priority_class_name
    _mount_volumes(job, name, spec)
    (meta.get("annotations") or {}).pop(keys.CREATED_ON_NODE, None)  # only set where the controller has chosen the node
    ending = ends.announced(job)
    described = {keys.POD_GROUP: described_group} if described_group else {}
    if variables := ends.variables(ending):
        for container in (*(spec.get("initContainers") or ()), *(spec.get("containers") or ())):
            container["env"] = [*(container.get("env") or ()), *variables]
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "name": name,
            "namespace": job.metadata.namespace,
            "labels": {
                **_free(meta.get("labels")),
                **_labels(job, task, index, forwarding=forwarding),
                **dict.fromkeys(described, "none"),
            },
            "annotations": {
                **_free(meta.get("annotations")),
                **_annotations(job, task, index, forwarding=forwarding),
                **ending,
                **described,
            },
            "ownerReferences": [controller_reference(JOBS, job.metadata)],
        },
        "spec": spec,
    }


def _free(marks: Mapping[str, str] | None) -> dict[str, str]:
    """Return the labels or annotations of a template without those by which the controller describes a group."""
    return {key: value for key, value in (marks or {}).items() if key != keys.POD_GROUP}


def template_of(task: Task) -> dict[str, Any]:
    """Return a new copy of the pod template of `task`; empty when the task has none."""
    raw = bytes(task.template)
    template = msgspec.json.decode(raw) if raw else None
    return template if isinstance(template, dict) else {}


def labels_of(job: Job, task: str, index: int, *, forwarding: bool = False) -> dict[str, str]:
    """Return the labels of pod `index` of task `task`, including the labels of its template; empty when no task has that name."""
    found = next((each for each in job.spec.tasks if each.name == task), None)
    if found is None:
        return {}
    meta = template_of(found).get("metadata") or {}
    return {**(meta.get("labels") or {}), **_labels(job, found, index, forwarding=forwarding)}


def partition_of(task: Task, index: int) -> str | None:
    """Return the partition to which pod `index` belongs; None for a task without partitions."""
    policy = task.partition_policy
    if policy is None:
        return None
    return str(int(index / policy.partition_size)) if policy.partition_size > 0 else "0"


def _shared(job: Job, task: Task, index: int, *, forwarding: bool) -> Iterator[tuple[str, str]]:
    """Yield the keys and values that are both labels and annotations of the pod."""
    yield keys.TASK_INDEX, str(index)
    yield keys.TASK_SPEC, task.name or _DEFAULT_TASK
    yield keys.JOB_NAME, job.metadata.name
    yield keys.QUEUE_NAME, job.spec.queue
    if forwarding:
        yield keys.JOB_FORWARDING, "true"


def _labels(job: Job, task: Task, index: int, *, forwarding: bool) -> dict[str, str]:
    labels = dict(_shared(job, task, index, forwarding=forwarding)) | {keys.JOB_NAMESPACE: job.metadata.namespace}
    partition = partition_of(task, index)
    if partition is not None:
        labels[keys.PARTITION_ID] = partition
    return labels | {key: job.metadata.labels[key] for key in _INHERITED_LABELS if key in job.metadata.labels}


def _annotations(job: Job, task: Task, index: int, *, forwarding: bool) -> dict[str, str]:
    given = job.metadata.annotations
    annotations = dict(_shared(job, task, index, forwarding=forwarding)) | {
        keys.JOB_VERSION: str(job.status.version),
        keys.JOB_RETRY_COUNT: str(job.status.retry_count),
        keys.TEMPLATE_UID: f"{job.metadata.name}-{task.name}",
        keys.GROUP_NAME: members.group_name(job),
    }
    if failures := arrays.failures_before(job, task, index):
        annotations[keys.FAILURES_BEFORE] = str(failures)
    if task.topology_policy:
        annotations[keys.NUMA_TOPOLOGY_POLICY] = task.topology_policy
    annotations |= {key: given[key] for key in _INHERITED_ANNOTATIONS if key in given}
    for key in (keys.DISRUPTION_MIN_AVAILABLE, keys.DISRUPTION_MAX_UNAVAILABLE):
        if key in given:
            annotations[key] = given[key]
            break  # the minimum takes precedence over the maximum
    return annotations


def _mount_volumes(job: Job, pod: str, spec: dict[str, Any]) -> None:
    """Add the Job's volumes to the pod, and mount each into every container except init containers."""
    mounted: dict[str, str] = {}
    for position, volume in enumerate(job.spec.volumes):
        source = volume.volume_claim_name or f"#{position}"
        if source not in mounted:
            mounted[source] = volume_name(job, pod, source)
            spec.setdefault("volumes", []).append({"name": mounted[source], **_source(volume)})
        for container in spec.get("containers") or ():
            container.setdefault("volumeMounts", []).append({"mountPath": volume.mount_path, "name": mounted[source]})


def _source(volume: JobVolume) -> dict[str, Any]:
    if volume.volume_claim_name:
        return {"persistentVolumeClaim": {"claimName": volume.volume_claim_name}}
    return {"emptyDir": {}}  # the volume has no claim: each pod gets an emptyDir of its own


_ALPHABET: Final = "0123456789abcdefghijklmnopqrstuvwxyz"
_LENGTH: Final = 12


def claim_name(job: Job, position: int) -> str:
    """Return the name of the claim generated for `spec.volumes[position]`: `<job>-pvc-` and twelve characters of 0-9a-z."""
    return f"{job.metadata.name}-pvc-{_suffix(job.metadata.uid, 'claim', str(position))}"


def volume_name(job: Job, pod: str, volume: str) -> str:
    """Return the name of the pod volume for a volume of the Job: `<job>-` and twelve characters of 0-9a-z."""
    return f"{job.metadata.name}-{_suffix(job.metadata.uid, pod, volume)}"


def _suffix(*parts: str) -> str:
    number = int.from_bytes(hashlib.sha256("\0".join(parts).encode()).digest(), "big")
    characters = []
    for _ in range(_LENGTH):
        number, digit = divmod(number, len(_ALPHABET))
        characters.append(_ALPHABET[digit])
    return "".join(characters)
