"""Computes the PodGroups of pods that belong to no Job of Pyroclast, from the annotations of the pods and their owners."""

from __future__ import annotations

import re
from collections import ChainMap
from collections.abc import Iterable, Mapping
from typing import Any, Final, TypeAlias

import msgspec

from pyroclast.api import keys
from pyroclast.api.enums import NetworkTopologyMode, PodPhase
from pyroclast.api.records import BatchJob, Pod, PodGroup, ReplicaSet, StatefulSet
from pyroclast.api.types import POD_GROUPS, PODS
from pyroclast.lifecycle.gang import podgroups
from pyroclast.lifecycle.merging import controller_reference, merge_patch

Workload: TypeAlias = ReplicaSet | StatefulSet | BatchJob
"""A workload whose pods share one PodGroup."""

_PREFIX: Final = "volcano.sh/"
_ANNOTATIONS: Final = (keys.PREEMPTABLE, keys.COOLDOWN_TIME, keys.REVOCABLE_ZONE)
_LABELS: Final = (keys.PREEMPTABLE, keys.COOLDOWN_TIME)
_REVISION: Final = "controller-revision-hash"
_NUMBER: Final = re.compile(r"\+?0*([0-9]{1,19})")
_MOST_MEMBERS: Final = (1 << 31) - 1
_HIGHEST_TIER: Final = (1 << 63) - 1


def wants_group(pod: Pod, schedulers: Iterable[str]) -> bool:
    """Return whether `pod` needs a PodGroup: one of `schedulers` places it, and it has neither a PodGroup nor a native one."""
    is_grouped = pod.spec.scheduling_group is not None or bool(pod.metadata.annotations.get(keys.GROUP_NAME))
    return pod.spec.scheduler_name in schedulers and not is_grouped


def group_name(pod: Pod) -> str:
    """Return the name of the group of `pod`, which contains the UID of the pod's controller, so that siblings share the group."""
    return f"podgroup-{_owner_uid(pod)}"


def is_group_of(pod: Pod, group: PodGroup) -> bool:
    """Return whether `group`, which has the expected name, was created for `pod` or its siblings."""
    return is_controlled(group, _owner_uid(pod))


def is_controlled(group: PodGroup, uid: str) -> bool:
    """Return whether the object with this UID controls `group`."""
    controller = group.metadata.controller
    return controller is not None and controller.uid == uid


def is_in_own_group(pod: Pod, schedulers: Iterable[str]) -> bool:
    """Return whether the controller assigned `pod` to a group and the pod still needs the group."""
    has_ended = pod.metadata.is_terminating or pod.status.phase in (PodPhase.SUCCEEDED, PodPhase.FAILED)
    in_ours = pod.metadata.annotations.get(keys.GROUP_NAME) == group_name(pod)
    return in_ours and not has_ended and pod.spec.scheduler_name in schedulers


def speaks_for(pod: Pod, workload: Workload) -> bool:
    """Return whether the group follows the annotations of `pod`.

    During a rolling update of a StatefulSet, it only follows pods of the new revision.
    """
    if not isinstance(workload, StatefulSet) or not workload.status.update_revision:
        return True
    return pod.metadata.labels.get(_REVISION) == workload.status.update_revision


def merged(owners: Iterable[Mapping[str, str]]) -> dict[str, str]:
    """Merge the annotations of all owners. For a key of several owners, the value of the first owner is used."""
    return dict(ChainMap(*map(dict, owners)))


def manifest(pod: Pod, inherited: Mapping[str, str], gang: int | None = None, workload: Workload | None = None) -> dict[str, Any]:
    """Return the PodGroup to create for `pod`, or for the pods with which it shares the group.

    `inherited`: the annotations of its owners. `gang`: the number of pods that must start together by the `scheduling` of the
    pod's Job, see `BatchJob.gang`; an annotation overrides it. `workload`: None when it is unknown. The minimum is at most the
    number of pods that the workload creates at once: in a rolling update, a ReplicaSet begins with few of its pods.
    """
    given, labels = pod.metadata.annotations, pod.metadata.labels
    said = inherited.get(keys.GROUP_MIN_MEMBER)
    number = _number(said, _MOST_MEMBERS)
    members = gang if said is None and gang is not None else 1 if number is None else number
    if workload is not None and workload.at_once > 0:
        members = min(members, workload.at_once)
    annotations = {key: value for key, value in inherited.items() if key.startswith(_PREFIX)}
    annotations |= {key: given[key] for key in _ANNOTATIONS if key in given}
    for key in (keys.DISRUPTION_MIN_AVAILABLE, keys.DISRUPTION_MAX_UNAVAILABLE):
        if key in given:
            annotations[key] = given[key]
            break  # the minimum overrides the maximum
    resources = podgroups.usage_times(podgroups.pod_usage(msgspec.to_builtins(pod.spec)), members)
    spec: dict[str, Any] = {"minMember": members, "minResources": {name: str(amount) for name, amount in resources.items()}}
    if pod.spec.priority_class_name:
        spec["priorityClassName"] = pod.spec.priority_class_name
    queue = given.get(keys.SCHEDULING_QUEUE_NAME)
    if gang is not None:  # for such Jobs the label is used too, and first, as Kubernetes does for its own PodGroups
        queue = labels.get(keys.SCHEDULING_QUEUE_NAME) or queue
    if queue:
        spec["queue"] = queue
    if topology := _topology(given):
        spec["networkTopology"] = topology
    return {
        "apiVersion": POD_GROUPS.api_version,
        "kind": POD_GROUPS.kind,
        "metadata": {
            "name": group_name(pod),
            "namespace": pod.metadata.namespace,
            "annotations": annotations,
            "labels": {key: labels[key] for key in _LABELS if key in labels},
            "ownerReferences": _owners(pod),
        },
        "spec": spec,
        "status": {"phase": "Pending"},
    }


def patch(group: PodGroup, wanted: Mapping[str, Any]) -> dict[str, Any]:
    """Return the merge patch that makes `group` equal to `wanted`, a result of `manifest`. Empty when they are equal.

    The queue stays if `wanted` has none. Labels and annotations of other writers stay too.
    """
    there: dict[str, Any] = {
        "minMember": group.spec.min_member,
        "minResources": {name: str(amount) for name, amount in (group.spec.min_resources or {}).items()},
    }
    if group.spec.priority_class_name:
        there["priorityClassName"] = group.spec.priority_class_name
    if "queue" in wanted["spec"]:
        there["queue"] = group.spec.queue
    if limit := group.spec.network_topology:
        tier = {"highestTierAllowed": limit.highest_tier_allowed} if limit.highest_tier_allowed is not None else {}
        there["networkTopology"] = {"mode": limit.mode.value, **tier}
    spec, meta = merge_patch(there, wanted["spec"]), group.metadata
    marks = {
        field: changed
        for field, before in (("labels", meta.labels), ("annotations", meta.annotations))
        if (changed := {key: value for key, value in wanted["metadata"][field].items() if before.get(key) != value})
    }
    return {**({"metadata": marks} if marks else {}), **({"spec": spec} if spec else {})}


def taken_over(pod: Pod, group: str, gang: int) -> str:
    """Return the Event message that the controller creates the PodGroup for the pods of a Job with `scheduling`."""
    owner = pod.metadata.controller or pod.metadata
    return (
        f"spec.scheduling: Kubernetes makes no PodGroup for the pods of Job {owner.name}, as it does for Jobs without a"
        f" controller; PodGroup {group} of scheduling.volcano.sh keeps them together, at least {gang} at a time"
    )


def queue_not_taken(pod: Pod, group: PodGroup) -> str:
    """Return the Event message that the queue of `pod` differs from the queue of its group. Empty when they are equal."""
    wanted = pod.metadata.annotations.get(keys.SCHEDULING_QUEUE_NAME)
    if not wanted or wanted == group.spec.queue:
        return ""
    why = f'pods of one owner share PodGroup {group.metadata.name}, which waits in queue "{group.spec.queue}"'
    return f'queue "{wanted}" is not taken: {why}; a PodGroup named by annotation {keys.GROUP_NAME} may wait in another'


def _owner_uid(pod: Pod) -> str:
    return (pod.metadata.controller or pod.metadata).uid


def _number(text: str | None, most: int) -> int | None:
    """Return the number in an annotation. None when it is not a number, is negative, or is above `most`."""
    found = _NUMBER.fullmatch(text) if text is not None else None
    number = int(found[1]) if found else most + 1
    return number if number <= most else None


def _owners(pod: Pod) -> list[dict[str, Any]]:
    if pod.metadata.controller:
        owners = map(msgspec.to_builtins, pod.metadata.owner_references)
        return [{name: value for name, value in owner.items() if value is not None} for owner in owners]
    return [controller_reference(PODS, pod.metadata)]


def _topology(annotations: Mapping[str, str]) -> dict[str, Any] | None:
    """Return the topology constraint in the annotations. An invalid mode means `hard`, and an invalid tier is omitted."""
    mode, tier = annotations.get(keys.NETWORK_TOPOLOGY_MODE), annotations.get(keys.NETWORK_TOPOLOGY_HIGHEST_TIER)
    if mode is None and tier is None:
        return None
    soft = (mode or "").lower() == NetworkTopologyMode.SOFT
    limit: dict[str, Any] = {"mode": NetworkTopologyMode.SOFT.value if soft else NetworkTopologyMode.HARD.value}
    if (number := _number(tier, _HIGHEST_TIER)) is not None:
        limit["highestTierAllowed"] = number
    return limit
