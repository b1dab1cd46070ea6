"""The part of a pod that scheduling reads, and the pod that represents a seat until the real pod exists."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

import msgspec

from pyroclast.api import keys, records
from pyroclast.lifecycle.seats.contract import PodTemplate, Seat, TaskSeats

_PREFIXES: Final = ("volcano.sh/", "scheduling.volcano.sh/", "scheduling.k8s.io/")
_PER_POD: Final = frozenset({keys.TASK_INDEX, keys.JOB_VERSION, keys.JOB_RETRY_COUNT})
_UID: Final = "seat:"


def template_of(pod: records.Pod) -> PodTemplate:
    """Return the fields of `pod` that scheduling reads, without those that differ between pods of one task."""
    meta = pod.metadata
    return PodTemplate(
        labels={key: value for key, value in meta.labels.items() if key != keys.TASK_INDEX},
        annotations={key: value for key, value in meta.annotations.items() if key.startswith(_PREFIXES) and key not in _PER_POD},
        # Volcano's PodGroup takes precedence over a scheduling group
        spec=msgspec.structs.replace(pod.spec, node_name="", volumes=(), scheduling_group=None),
    )


def name_of(task: TaskSeats, index: int) -> str:
    """Return the name of the pod of a seat."""
    return f"{task.prefix}{index}"


def uid_of(group: records.Meta, generation: int, seat: Seat) -> str:
    """Return the UID that represents the pod of a seat of this PodGroup; an API server never generates such a UID."""
    return f"{_UID}{group.uid}:{generation}:{seat.role}/{seat.index}"


def is_seat(uid: str) -> bool:
    """Whether `uid` represents a seat and not a pod."""
    return uid.startswith(_UID)


def pod_of(group: records.Meta, generation: int, task: TaskSeats, index: int) -> records.Pod:
    """Return the future pod of a seat of the PodGroup with metadata `group`. The pod is pending since the creation of the
    PodGroup.
    """
    own = {keys.TASK_INDEX: str(index)}
    return records.Pod(
        metadata=records.Meta(
            name=name_of(task, index),
            namespace=group.namespace,
            uid=uid_of(group, generation, Seat(task.role, index)),
            creation_timestamp=group.creation_timestamp,
            labels={**task.pod.labels, **own},
            annotations=_annotations(task.pod.annotations, group) | own,
        ),
        spec=task.pod.spec,
    )


def _annotations(given: Mapping[str, str], group: records.Meta) -> dict[str, str]:
    """Return the annotations of the pod. The PodGroup is always the one that publishes the seat, whatever the template says."""
    return {**given, keys.GROUP_NAME: group.name}
