"""A task: its status, the immutable facts of one pod, and its state in a session."""

from __future__ import annotations

import functools
from datetime import datetime
from enum import IntEnum
from typing import Final

import msgspec

from pyroclast.api import keys, records
from pyroclast.api.types import PRIORITY_CLASSES
from pyroclast.resources.go_flags import parse_bool
from pyroclast_scheduler.model.requests import as_allocated
from pyroclast_scheduler.model.shapes import Shape, ShapeBook
from pyroclast_scheduler.model.values import parse_count


class TaskStatus(IntEnum):
    """The status of a task. The values are positions in a tally. Allocated, Pipelined and Binding exist in the scheduler only."""

    PENDING = 0
    ALLOCATED = 1
    PIPELINED = 2
    BINDING = 3
    BOUND = 4
    RUNNING = 5
    RELEASING = 6
    SUCCEEDED = 7
    FAILED = 8
    UNKNOWN = 9

    @property
    def label(self) -> str:
        """The name of this status in messages for users."""
        return self.name.capitalize()


ALLOCATED: Final = frozenset({TaskStatus.BOUND, TaskStatus.BINDING, TaskStatus.RUNNING, TaskStatus.ALLOCATED})
READY: Final = ALLOCATED | {TaskStatus.SUCCEEDED}
SCHEDULED: Final = frozenset({TaskStatus.RUNNING, TaskStatus.BOUND, TaskStatus.SUCCEEDED, TaskStatus.FAILED})
EVICTABLE: Final = frozenset({TaskStatus.BOUND, TaskStatus.RUNNING})
VALID: Final = READY | {TaskStatus.PIPELINED, TaskStatus.PENDING}

_TERMINAL: Final = {"Succeeded": TaskStatus.SUCCEEDED, "Failed": TaskStatus.FAILED}


def status_of(phase: str, *, node_name: str, is_deleting: bool) -> TaskStatus:
    """Return the status of a pod in `phase`. An empty one, which the API server has not defaulted yet, counts as Pending."""
    if phase in _TERMINAL:
        return _TERMINAL[phase]
    if phase not in {"Pending", "Running", ""}:
        return TaskStatus.UNKNOWN
    if is_deleting:
        return TaskStatus.RELEASING
    if phase == "Running":
        return TaskStatus.RUNNING
    return TaskStatus.BOUND if node_name else TaskStatus.PENDING


_NO_INDEX: Final = -1
_BEYOND_INT32: Final = 2**31


class TaskFacts(msgspec.Struct, frozen=True, gc=False, eq=False):
    """One pod, or one seat (a pod that does not exist yet), at the start of a session.

    Attributes:
        job: the key of the PodGroup; empty if the pod has none.
        index: the number at the end of a pod name that has three or more words joined by dashes, −1 without such a number.
        created: seconds since the epoch.
        arrival: the resource version with which the pod was first seen, for the order within a second; 0 without one.
        node: the name of the node; empty if the pod has none.
        gates: the names of the scheduling gates.
        nominated: the name of the node on which pods are evicted for this pod; empty if there is none.
        part: the name of the part of the group to which the pod belongs; empty if the group has no parts.
    """

    uid: str
    namespace: str
    name: str
    job: str
    role: str
    shape: Shape
    priority: int
    created: float
    index: int
    status: TaskStatus
    node: str
    is_preemptable: bool
    gates: tuple[str, ...]
    nominated: str
    pod: records.Pod
    part: str = ""
    arrival: int = 0

    @property
    def key(self) -> str:
        """The key of the pod, namespace/name."""
        return f"{self.namespace}/{self.name}"

    @property
    def has_started(self) -> bool:
        """Whether the kubelet has accepted the pod."""
        return self.pod.status.start_time is not None or self.status not in {TaskStatus.BOUND, TaskStatus.BINDING}

    @property
    def started(self) -> float | None:
        """The time at which the kubelet accepted the pod, in seconds since the epoch; None if it is missing or malformed."""
        return readable_seconds(self.pod.status.start_time)

    @property
    def is_behind_queue_gate(self) -> bool:
        """Whether the pod waits for the gate of its queue and for no other scheduling gate."""
        return self.gates == (keys.QUEUE_ALLOCATION_GATE,)

    @property
    def is_let_in(self) -> bool:
        """Whether the gate of the queue was removed from the pod and the pod is still pending."""
        return self.status is TaskStatus.PENDING and not self.gates and self.uses_queue_gate

    @property
    def uses_queue_gate(self) -> bool:
        """Whether the pod requested the gate of its queue by annotation."""
        return self.shape.marks.get(keys.QUEUE_ALLOCATION_GATE) == "true"

    def moved(self, status: TaskStatus, node: str) -> TaskFacts:
        """Return the same pod with another status and node."""
        return msgspec.structs.replace(self, status=status, node=node)

    def nominated_to(self, node: str) -> TaskFacts:
        """Return the same pod with `node` as its nominated node."""
        return msgspec.structs.replace(self, nominated=node)


class Task:
    """A pod in a session. `row`: of its node, −1 without one. `last`: status and row in the statement that was undone last."""

    __slots__ = ("evicted_others", "facts", "last", "row", "status")

    def __init__(self, facts: TaskFacts, row: int) -> None:
        self.facts = facts
        self.status = facts.status
        self.row = row
        self.last: tuple[TaskStatus, int] | None = None
        self.evicted_others = False

    @property
    def uid(self) -> str:
        """The UID of the pod."""
        return self.facts.uid

    def __repr__(self) -> str:
        return f"<Task {self.facts.key} {self.status.label}>"


def group_of(pod: records.Pod) -> str:
    """Return the key of the group to which a pod belongs, empty if it belongs to none."""
    meta, named = pod.metadata, pod.spec.scheduling_group
    name = meta.annotations.get(keys.GROUP_NAME, "")
    if name:
        return f"{meta.namespace}/{name}"
    return native_key(meta.namespace, named.pod_group_name) if named is not None and named.pod_group_name else ""


def native_key(namespace: str, name: str) -> str:
    """Return the key of the group that a PodGroup of the Kubernetes API describes. No Volcano PodGroup can have such a key."""
    return f"{namespace}/{name}@{PRIORITY_CLASSES.group}"


def task_of(pod: records.Pod, book: ShapeBook, before: TaskFacts | None = None) -> TaskFacts:
    """Return the task for `pod`. `before`: its earlier state, if there is one.

    Raises:
        ValueError: a quantity of the pod is invalid.
    """
    meta, spec = pod.metadata, pod.spec
    annotations = meta.annotations
    preemptable = annotations.get(keys.PREEMPTABLE, meta.labels.get(keys.PREEMPTABLE))
    return TaskFacts(
        uid=meta.uid,
        namespace=meta.namespace,
        name=meta.name,
        job=group_of(pod),
        role=annotations.get(keys.TASK_SPEC) or meta.labels.get(keys.TASK_SPEC, ""),
        shape=book.of(as_allocated(pod), annotations),
        priority=_priority(spec, annotations.get(keys.TASK_PRIORITY, "")),
        created=seconds_of(meta.creation_timestamp),
        index=_index_of(meta.name),
        status=status_of(pod.status.phase, node_name=spec.node_name, is_deleting=meta.is_terminating),
        node=spec.node_name,
        is_preemptable=preemptable is None or bool(parse_bool(preemptable)),
        gates=tuple(gate.name for gate in spec.scheduling_gates),
        nominated=pod.status.nominated_node_name,
        pod=pod,
        arrival=arrival_of(meta) if before is None else before.arrival,
    )


def arrival_of(meta: records.Meta) -> int:
    """Return the resource version as a number, 0 if it is none."""
    return parse_count(meta.resource_version) or 0


@functools.lru_cache(4096)  # objects that are created together have the same time
def seconds_of(timestamp: str | None) -> float:
    """Return the seconds since the epoch of an RFC 3339 time, 0 without a time.

    Raises:
        ValueError: the text is not an RFC 3339 time.
    """
    return datetime.fromisoformat(timestamp).timestamp() if timestamp else 0.0


def readable_seconds(timestamp: str | None) -> float | None:
    """Return the seconds since the epoch of an RFC 3339 time, None if the time is missing or malformed."""
    try:
        return seconds_of(timestamp) if timestamp else None
    except ValueError:
        return None


def placed_at(task: TaskFacts) -> float | None:
    """Return when the pod was assigned to its node, in seconds since the epoch; None if the pod does not report the time yet."""
    status = task.pod.status
    placed = next((each for each in status.conditions if each.type == "PodScheduled" and each.status == "True"), None)
    found = readable_seconds(placed.last_transition_time) if placed is not None else None
    return readable_seconds(status.start_time) if found is None else found


def was_preempted(pod: records.Pod) -> bool:
    """Whether a scheduler evicted the pod in favour of other pods."""
    says = {(each.type, each.status, each.reason) for each in pod.status.conditions}
    return ("DisruptionTarget", "True", "PreemptionByScheduler") in says


def _priority(spec: records.PodSpec, annotation: str) -> int:
    own = 1 if spec.priority is None else spec.priority
    if not annotation:
        return own
    try:
        found = int(annotation)
    except ValueError:
        return own
    return found if -_BEYOND_INT32 <= found < _BEYOND_INT32 else own


def _index_of(name: str) -> int:
    parts = name.rsplit("-", 2)
    return int(parts[2]) if len(parts) == 3 and parts[2].isdecimal() else _NO_INDEX
