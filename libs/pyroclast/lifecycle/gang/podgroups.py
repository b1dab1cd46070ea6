"""The PodGroup of a Job: its desired state with `minResources`, and the patch that produces this state."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final, TypeAlias

import msgspec

from pyroclast.api import keys
from pyroclast.api.enums import PodGroupPhase
from pyroclast.api.records import Job, NetworkTopology, PodGroup, SubGroupPolicy, Task
from pyroclast.api.types import JOBS, POD_GROUPS
from pyroclast.lifecycle.gang import members, plan
from pyroclast.lifecycle.gang.members import ObservedPods, min_available, needed_pods
from pyroclast.lifecycle.gang.pods import template_of
from pyroclast.lifecycle.merging import controller_reference, merge_patch
from pyroclast.resources import quantity
from pyroclast.resources.pods import NO_ADDITIONS, Additions, as_stored, combined, effective
from pyroclast.resources.quantity import Quantity

Usage: TypeAlias = dict[str, Quantity]
"""Amounts by name of the resource, including the names that quotas use."""


_DEFAULT_QUEUE: Final = "default"
_NOT_STARTED: Final = frozenset({PodGroupPhase.PENDING, PodGroupPhase.INQUEUE})
_OWN: Final = frozenset({keys.NATIVE_GROUP, keys.PLACEMENT, keys.SEATS, keys.WAITING, keys.WAITS_FOR_TASK})
"""Annotations by which the controller and the scheduler exchange information on a PodGroup; a Job cannot set them."""

_CARRIED: Final = ("annotations", "labels")
_UNREAD: Final = frozenset({"kubectl.kubernetes.io/last-applied-configuration"})
_NOT_CARRIED: Final = _OWN | _UNREAD | {keys.JOB_VERSION, keys.RESERVATION}
"""Annotations that are not copied from a Job to its existing PodGroup."""


@dataclass(frozen=True, slots=True)
class Inherited:
    """The fields that a PodGroup copies from its Job, besides the size of the gang."""

    queue: str
    topology: Mapping[str, Any] | None
    labels: Mapping[str, str]
    annotations: Mapping[str, str]


def remaining(job: Job, pods: ObservedPods) -> Job:
    """Return `job` without the pods that succeeded and were deleted: the gang does not wait for them any more."""
    gone = {task: len(indexes) for task, indexes in pods.gone.items()}
    job = _with_arrays(job, pods)
    if not gone:
        return job
    tasks = tuple(
        msgspec.structs.replace(
            task,
            replicas=task.replicas - gone.get(task.name, 0),
            depends_on=None,  # the gang has started
            min_available=None if task.min_available is None else max(0, task.min_available - gone.get(task.name, 0)),
        )
        for task in job.spec.tasks
    )
    gang = max(1, min_available(job.spec) - sum(gone.values())) if min_available(job.spec) else 0
    return msgspec.structs.replace(job, spec=msgspec.structs.replace(job.spec, tasks=tasks, min_available=gang))


def _with_arrays(job: Job, pods: ObservedPods) -> Job:
    """Return `job` with the indexes of its arrays that have not ended; a gang needs no more of them than there are."""
    if all(task.array is None for task in job.spec.tasks):
        return job
    left = {task.name: pods.progress[task.name].left for task in job.spec.tasks if task.array and task.name in pods.progress}
    return msgspec.structs.replace(job, spec=members.with_fewer_pods(job.spec, left, least=1))


def manifest(job: Job, priorities: Mapping[str, int], additions: Additions = NO_ADDITIONS) -> dict[str, Any]:
    """Return the PodGroup to create. `additions`: what the API server adds to the amounts of the pods.

    After a restart, the PodGroup carries the version of the Job: so it differs from the PodGroup of an earlier version.
    """
    annotations = {key: value for key, value in job.metadata.annotations.items() if key not in _OWN}
    if job.status.version:
        annotations[keys.JOB_VERSION] = str(job.status.version)
    if estimate := members.estimate(job.spec):
        annotations[keys.RUNNING_ESTIMATE] = estimate
    if why := plan.deadlock(job.spec):
        annotations[keys.WAITS_FOR_TASK] = why
    spec: dict[str, Any] = {
        "minMember": min_available(job.spec),
        "minTaskMember": {task.name: _minimum(task) for task in job.spec.tasks},
        "queue": job.spec.queue,
        "minResources": min_resources(job, priorities, additions),
    }
    if job.spec.priority_class_name:
        spec["priorityClassName"] = job.spec.priority_class_name
    if topology := _topology(job):
        spec["networkTopology"] = topology
    if sub_groups := _sub_groups(job):
        spec["subGroupPolicy"] = [_write_sub_group(policy) for policy in sub_groups]
    return {
        "apiVersion": POD_GROUPS.api_version,
        "kind": POD_GROUPS.kind,
        "metadata": {
            "name": members.group_name(job),
            "namespace": job.metadata.namespace,
            "labels": dict(job.metadata.labels),
            "annotations": annotations,
            "ownerReferences": [controller_reference(JOBS, job.metadata)],
        },
        "spec": spec,
    }


def needs_object(job: Job) -> bool:
    """Whether the gang of `job` needs a PodGroup. For a gang of one pod, the pod can describe the group."""
    tasks = job.spec.tasks
    is_one = len(tasks) == 1 and tasks[0].replicas == min_available(job.spec) == 1
    return not is_one or any(task.array or task.partition_policy or task.depends_on for task in tasks) or bool(_topology(job))


def on_pod(job: Job, priorities: Mapping[str, int], additions: Additions = NO_ADDITIONS) -> str:
    """Return what the PodGroup of `job` would contain, as the text of an annotation of its pod."""
    made = manifest(job, priorities, additions)
    meta = {name: {key: value for key, value in made["metadata"][name].items() if key not in _UNREAD} for name in _CARRIED}
    return msgspec.json.encode({"metadata": meta, "spec": made["spec"]}).decode()


def inherited(job: Job) -> Inherited:
    """Return the fields that the PodGroup of `job` should copy from `job`."""
    annotations = {key: value for key, value in job.metadata.annotations.items() if key not in _NOT_CARRIED}
    return Inherited(job.spec.queue, _topology(job), job.metadata.labels, annotations)


def patch(
    job: Job,
    group: PodGroup,
    priorities: Mapping[str, int],
    additions: Additions = NO_ADDITIONS,
    *,
    spec_changed: bool,
    additions_changed: bool = False,
    carried: Inherited | None = None,
) -> dict[str, Any]:
    """Return the merge patch that updates `group`; empty when `group` is up to date.

    Entries of `minTaskMember` for removed tasks stay. Labels and annotations that the Job no longer has stay too, because other
    writers may have set them. `spec_changed`: compare `minResources` as well, which costs more than the other comparisons
    together. `additions_changed`: do so while the gang has not started; its pods keep the amounts with which they were created.
    `carried`: the fields that were copied last; while they are unchanged, changes by other writers stay.
    """
    given = inherited(job)
    body = _inherited_patch(job, group, given, spec_changed=spec_changed) if given != carried else {}
    changes: dict[str, Any] = body.pop("spec", {})
    if group.spec.priority_class_name != job.spec.priority_class_name:
        changes["priorityClassName"] = job.spec.priority_class_name or None
    minimum = min_available(job.spec)
    is_recounted = additions_changed and group.status.phase in _NOT_STARTED
    if spec_changed or is_recounted or group.spec.min_member != minimum:
        there = {name: str(amount) for name, amount in (group.spec.min_resources or {}).items()}
        changes |= merge_patch(
            {"minMember": group.spec.min_member, "minResources": there},
            {"minMember": minimum, "minResources": min_resources(job, priorities, additions)},
        )
    tasks = {task.name: _minimum(task) for task in job.spec.tasks}
    different = {name: number for name, number in tasks.items() if group.spec.min_task_member.get(name) != number}
    if different:
        changes["minTaskMember"] = different
    sub_groups = _sub_groups(job)
    if sub_groups != group.spec.sub_group_policy:
        changes["subGroupPolicy"] = [_write_sub_group(policy) for policy in sub_groups]
    if spec_changed and (why := plan.deadlock(job.spec)) != group.metadata.annotations.get(keys.WAITS_FOR_TASK, ""):
        metadata = body.get("metadata") or {}
        annotations = {**metadata.get("annotations", {}), keys.WAITS_FOR_TASK: why or None}
        body = {**body, "metadata": {**metadata, "annotations": annotations}}
    return {**body, "spec": changes} if changes else body


def _inherited_patch(job: Job, group: PodGroup, given: Inherited, *, spec_changed: bool) -> dict[str, Any]:
    """Return the changes of the fields in `given`.

    When `group` was created, admission may have replaced the queue `default` by the queue of the namespace.
    """
    spec: dict[str, Any] = {}
    if spec_changed and job.status.observed_generation > 0:
        if given.queue not in (group.spec.queue, _DEFAULT_QUEUE):
            spec["queue"] = given.queue
        there = _write_topology(group.spec.network_topology) if group.spec.network_topology else None
        if given.topology != there:
            spec["networkTopology"] = merge_patch(there or {}, given.topology) if given.topology else None
    labels = {key: value for key, value in given.labels.items() if group.metadata.labels.get(key) != value}
    annotations = {key: value for key, value in given.annotations.items() if group.metadata.annotations.get(key) != value}
    metadata = {name: value for name, value in (("labels", labels), ("annotations", annotations)) if value}
    return {name: value for name, value in (("metadata", metadata), ("spec", spec)) if value}


def is_admitted(group: PodGroup | None) -> bool:
    """Whether the scheduler has admitted the gang, so that its pods may be created."""
    return group is not None and not group.metadata.is_terminating and group.status.phase is not PodGroupPhase.PENDING


def is_stale(job: Job, group: PodGroup, pods: ObservedPods) -> bool:
    """Whether `group` belongs to an older version of the Job, and must be deleted before the pods of the current version are
    created.

    A PodGroup without a version belongs to the version of the existing pods: other controllers' PodGroups have no version.
    """
    version = group.metadata.annotations.get(keys.JOB_VERSION)
    if version is not None and version.isdecimal():
        return int(version) < job.status.version
    return job.status.version > 0 and all(state.version != job.status.version for state in pods.numbers)


def _minimum(task: Task) -> int:
    if task.min_available is not None:
        return task.min_available
    policy = task.partition_policy
    return (policy.min_partitions * policy.partition_size if policy else 0) or task.replicas


def _sub_groups(job: Job) -> tuple[SubGroupPolicy, ...]:
    return tuple(
        SubGroupPolicy(
            name=task.name,
            sub_group_size=task.partition_policy.partition_size,
            min_sub_groups=task.partition_policy.min_partitions,
            label_selector={"matchLabels": {keys.TASK_SPEC: task.name}},
            match_label_keys=(keys.PARTITION_ID,),
            network_topology=task.partition_policy.network_topology,
        )
        for task in job.spec.tasks
        if task.partition_policy
    )


def _write_sub_group(policy: SubGroupPolicy) -> dict[str, Any]:
    body: dict[str, Any] = msgspec.to_builtins(policy) | {"matchLabelKeys": list(policy.match_label_keys)}
    if policy.network_topology is None:
        del body["networkTopology"]
    else:
        body["networkTopology"] = _write_topology(policy.network_topology)
    return body


def _topology(job: Job) -> dict[str, Any] | None:
    if job.spec.network_topology is None:
        return None
    limit = _write_topology(job.spec.network_topology)
    if "highestTierAllowed" in limit:
        limit.pop("highestTierName", None)  # the number takes precedence over the name
    return limit


def _write_topology(topology: NetworkTopology) -> dict[str, Any]:
    return {name: value for name, value in msgspec.to_builtins(topology).items() if value not in (None, "")}


_ONE: Final = quantity.from_value(1)
_COUNTED: Final = ("cpu", "memory", "ephemeral-storage")
_NATIVE_DOMAIN: Final = "kubernetes.io/"


def pod_usage(spec: Mapping[str, Any]) -> Usage:
    """Return the usage of one stored pod with this spec: the pod itself, its effective requests and its effective limits.

    An extended resource also counts under its own name, so that a scheduler can compare the amount with the nodes. A quantity
    that cannot be parsed counts as zero, because admission has refused it.
    """
    requests, limits = effective(spec, "requests"), effective(spec, "limits")
    usage: Usage = {"count/pods": _ONE, "pods": _ONE}
    for name, amount in requests.items():
        is_extended = "/" in name and _NATIVE_DOMAIN not in name
        if name in _COUNTED or name.startswith("hugepages-") or is_extended:
            usage[f"requests.{name}"] = usage[name] = amount
    usage.update({f"limits.{name}": amount for name, amount in limits.items() if name in _COUNTED})
    return usage


def usage_times(usage: Mapping[str, Quantity], number: int) -> Usage:
    """Return `usage` multiplied by `number`; empty when `number` is zero."""
    return {name: amount * number for name, amount in usage.items()} if number > 0 else {}


def min_resources(job: Job, priorities: Mapping[str, int], additions: Additions = NO_ADDITIONS) -> dict[str, str]:
    """Return the requests of the `minAvailable` most important pods, in canonical quantities.

    `priorities`: the value of each PriorityClass, by name. `additions`: see `manifest`. Tasks with a higher priority count first;
    tasks with equal priority count in the order of the spec.
    """
    total: Usage = {}
    for task, number in shares(job, priorities):
        usage = usage_times(pod_usage(as_stored(template_of(task).get("spec") or {}, additions)), number)
        total = combined(total, usage, Quantity.__add__)
    return {name: str(amount) for name, amount in total.items()}


def shares(job: Job, priorities: Mapping[str, int]) -> Iterator[tuple[Task, int]]:
    """Yield tasks and their numbers of pods, which together make up `minAvailable`; a task may appear twice."""
    wanted = min_available(job.spec)
    tasks = sorted(job.spec.tasks, key=lambda task: -_priority(task, priorities))
    if wanted < sum(map(needed_pods, tasks)):  # the first pods in order of priority, regardless of each task's own minimum
        numbers = [(task, task.replicas) for task in tasks]
    else:
        numbers = [(task, task.min_available) for task in tasks if task.min_available is not None]
        numbers += [(task, task.replicas - (task.min_available or 0)) for task in tasks]
    for task, most in numbers:
        if wanted <= 0:
            return
        yield task, min(most, wanted)
        wanted -= min(most, wanted)


def _priority(task: Task, priorities: Mapping[str, int]) -> int:
    spec = template_of(task).get("spec") or {}
    return priorities.get(spec.get("priorityClassName") or "", 0)
