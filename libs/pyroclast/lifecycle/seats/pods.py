"""What scheduling reads of a pod, and the pod that stands for a seat until the real one is there."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

import msgspec

from pyroclast.api import keys, records
from pyroclast.lifecycle.seats.contract import PodTemplate, Seat, TaskSeats

__all__ = ["is_seat", "name_of", "pod_of", "template_of", "uid_of"]

_PREFIXES: Final = ("volcano.sh/", "scheduling.volcano.sh/", "scheduling.k8s.io/")
_PER_POD: Final = frozenset({keys.TASK_INDEX, keys.JOB_VERSION, keys.JOB_RETRY_COUNT})
_UID: Final = "seat:"


def template_of(pod: records.Pod) -> PodTemplate:
    """What scheduling reads of `pod`, without what tells it from its siblings."""
    meta = pod.metadata
    return PodTemplate(
        labels={key: value for key, value in meta.labels.items() if key != keys.TASK_INDEX},
        annotations={key: value for key, value in meta.annotations.items() if key.startswith(_PREFIXES) and key not in _PER_POD},
        spec=msgspec.structs.replace(pod.spec, node_name="", volumes=(), scheduling_group=None),  # our PodGroup goes before that
    )


def name_of(task: TaskSeats, index: int) -> str:
    """The name of the pod of a seat."""
    return f"{task.prefix}{index}"


def uid_of(group: records.Meta, generation: int, seat: Seat) -> str:
    """What stands for the uid of the pod of a seat of a PodGroup with this metadata: none that an API server gives."""
    return f"{_UID}{group.uid}:{generation}:{seat.role}/{seat.index}"


def is_seat(uid: str) -> bool:
    """Whether `uid` stands for a seat, not for a pod."""
    return uid.startswith(_UID)


def pod_of(group: records.Meta, generation: int, task: TaskSeats, index: int) -> records.Pod:
    """The pod of a seat of the PodGroup with this metadata as it will be; it waits for a node, since the gang was made."""
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
    """Those of the pod: the group is the one that publishes the seat, whatever the template says."""
    return {**given, keys.GROUP_NAME: group.name}
