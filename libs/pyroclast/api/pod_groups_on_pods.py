"""The group of a Job of one pod that has no PodGroup: it is read from the pod. Pure.

The job controller writes on the pod what the PodGroup would contain, so that all programs read the same group from either object.
What the scheduler writes on a PodGroup stands in conditions of the pod, the only field of pods that the scheduler may write.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final

import msgspec

from pyroclast.api import keys
from pyroclast.api.enums import NativeConditionType, PodGroupConditionType, PodGroupPhase, PodPhase
from pyroclast.api.records import Meta, Pod, PodGroup, PodGroupCondition, PodGroupSpec, PodGroupStatus, Wire, reading
from pyroclast.api.types import POD_GROUPS

CONDITIONS: Final[Mapping[str, str]] = {keys.WAITING: NativeConditionType.WAITING, keys.RESERVATION: "pyroclast.dev/Reservation"}
"""The type of the pod's condition that stands for each annotation that the scheduler writes on a PodGroup."""


class _Written(Wire, frozen=True, kw_only=True):
    metadata: Meta = Meta()
    spec: PodGroupSpec = PodGroupSpec()


def is_described(pod: Pod) -> bool:
    """Whether `pod` describes its group itself. A policy lets only the job controller write on pods with this label."""
    return keys.POD_GROUP in pod.metadata.labels and keys.POD_GROUP in pod.metadata.annotations


def group_of(pod: Pod) -> PodGroup | None:
    """Return the group that `pod` describes, with the name and the UID of the pod; None for other pods, and when it has ended."""
    if pod.status.phase in (PodPhase.SUCCEEDED, PodPhase.FAILED) or not is_described(pod):
        return None
    try:
        written = msgspec.json.decode(pod.metadata.annotations[keys.POD_GROUP], type=_Written)
    except (msgspec.MsgspecError, RecursionError):
        return None
    said = {each.type: each for each in pod.status.conditions}
    annotations = {key: said[kind].message for key, kind in CONDITIONS.items() if kind in said and said[kind].status == "True"}
    if pod.spec.node_name:
        annotations.pop(keys.WAITING, None)
    meta = msgspec.structs.replace(
        pod.metadata,
        labels=written.metadata.labels,
        annotations={**written.metadata.annotations, **annotations},
        deletion_timestamp=None,
        finalizers=(),
    )
    return PodGroup(metadata=meta, spec=written.spec, status=_status(pod))


def _status(pod: Pod) -> PodGroupStatus:
    if pod.spec.node_name:
        return PodGroupStatus(phase=PodGroupPhase.RUNNING, running=int(pod.status.phase is PodPhase.RUNNING))
    waits = (each for each in pod.status.conditions if (each.type, each.status) == (NativeConditionType.QUEUED, "True"))
    conditions = tuple(
        PodGroupCondition(
            type=PodGroupConditionType.UNSCHEDULABLE,
            status="True",
            reason=each.reason,
            message=each.message,
            last_transition_time=each.last_transition_time,
        )
        for each in waits
    )
    return PodGroupStatus(phase=PodGroupPhase.PENDING, conditions=conditions)


def groups_in(pods: Iterable[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Return the groups that `pods` describe, as the JSON objects of PodGroups."""
    found = (group_of(reading.convert(pod, Pod)) for pod in pods)
    kind = {"apiVersion": POD_GROUPS.api_version, "kind": POD_GROUPS.kind}
    return [{**kind, **msgspec.to_builtins(group)} for group in found if group is not None]
