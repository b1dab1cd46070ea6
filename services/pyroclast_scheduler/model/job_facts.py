"""The immutable state of one group and its pods at the time of a snapshot."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from types import EllipsisType
from typing import Final

from pyroclast.api import keys
from pyroclast.api.enums import PodGroupPhase
from pyroclast.lifecycle.gang.groups import Group
from pyroclast.resources import durations
from pyroclast.resources.go_flags import parse_bool
from pyroclast_scheduler.model.dimensions import Amounts, Dimensions, amounts_of, summed
from pyroclast_scheduler.model.equivalence_classes import equivalence_class
from pyroclast_scheduler.model.node_columns import Floats
from pyroclast_scheduler.model.promises import beyond, promise_to
from pyroclast_scheduler.model.recovery import lacks_members
from pyroclast_scheduler.model.resource_sums import Contribution, Tally, TaskSums
from pyroclast_scheduler.model.shapes import PlacementLabels
from pyroclast_scheduler.model.tasks import TaskFacts, TaskStatus, seconds_of

_LOWEST: Final = -(1 << 31)
WAITING_PHASES = frozenset({PodGroupPhase.PENDING, PodGroupPhase.INQUEUE, PodGroupPhase.UNKNOWN})


class JobFacts:
    """One group with its tasks at the time of a snapshot. The object never changes, so that sessions share it.

    Raises (from the constructor):
        ValueError: a quantity of the PodGroup is invalid.

    Attributes:
        arrived: when the group or its first pod was created, and the resource version with which it was first seen.
        is_preemptable: whether the PodGroup marks its pods as preemptable.
        may_be_preempted: whether gangpreempt may evict the gang; true unless the PodGroup is marked as not preemptable.
        promise: the room that is kept for the job.
        lost: one pod for each member that the started gang lost and that has no replacement yet, see `model.recovery`.
        contribution: the amounts that the job adds to the sums of its queue.
        is_ours: whether this scheduler places pods of the job; true for a job that has no pods yet.
    """

    __slots__ = (
        "_class",
        "_granted",
        "_placement_labels",
        "_strict_class",
        "_vectors",
        "arrived",
        "contribution",
        "created",
        "group",
        "is_ours",
        "is_preemptable",
        "key",
        "lost",
        "may_be_preempted",
        "min_available",
        "min_resources",
        "name",
        "namespace",
        "priority",
        "promise",
        "queue",
        "role_minimum",
        "sums",
        "tasks",
        "uid",
    )

    def __init__(
        self,
        group: Group,
        tasks: Sequence[TaskFacts],
        sums: TaskSums,
        *,
        priority: int,
        queue: str,
        placement_labels: PlacementLabels,
        is_ours: bool = True,
        arrived: tuple[float, int] | None = None,
        lost: Sequence[TaskFacts] = (),
    ) -> None:
        spec, meta = group.spec, group.metadata
        self.group = group
        self.is_ours = is_ours
        self.lost = lost
        self.key = group.key
        self.uid = meta.uid
        self.namespace = meta.namespace
        self.name = meta.name
        self.queue = queue
        self.priority = priority
        self.created = seconds_of(meta.creation_timestamp)
        self.arrived = (self.created, 0) if arrived is None else arrived
        self.min_available = spec.min_member
        self.role_minimum = spec.min_task_member
        self.min_resources: Amounts | None = (
            spec.member_resources if spec.min_resources is None else amounts_of(spec.min_resources)
        )
        self.tasks = tasks
        self.sums = sums
        self._placement_labels = placement_labels
        self._strict_class: bytes | EllipsisType | None = ...
        self._class: tuple[int, bytes | None] = (-1, None)
        self._granted: tuple[int, int] | None = None
        self._vectors: dict[str, tuple[Sequence[str], Floats]] = {}
        text = meta.annotations.get(keys.PREEMPTABLE, meta.labels.get(keys.PREEMPTABLE))
        self.is_preemptable = bool(parse_bool(text or ""))
        self.may_be_preempted = text is None or bool(parse_bool(text))
        self.promise = promise_to(group, self.min_resources, sums)
        allocated, least = sums.allocated, self.min_resources
        elastic = allocated if least is None else beyond(allocated, least)
        gone = [each.shape.request for each in lost if each.status is not TaskStatus.RELEASING]
        pending = summed([sums.pending, *gone]) if gone else sums.pending
        self.contribution = Contribution(queue, allocated, pending, elastic, self.promise.amounts, self.promise.whole)

    @classmethod
    def of(cls, group: Group, tasks: Iterable[TaskFacts], *, priority: int = 0, queue: str = "") -> JobFacts:
        """Return the facts of a group with these tasks, with sums calculated from the tasks."""
        listed, sums = tuple(tasks), TaskSums()
        for task in listed:
            sums.add(task)
        return cls(group, listed, sums, priority=priority, queue=queue, placement_labels=PlacementLabels())

    @property
    def lacks_members(self) -> bool:
        """Whether some members are allocated, but fewer than the minimum."""
        return lacks_members(self.group, self.sums.tally)

    @property
    def tally(self) -> Tally:
        """The number of tasks in each status. Callers must not change the tally."""
        return self.sums.tally

    @property
    def phase(self) -> PodGroupPhase:
        """The phase of the PodGroup."""
        return self.group.status.phase

    @property
    def is_waiting(self) -> bool:
        """Whether the job waits to be enqueued, for members, or for nodes of pending tasks."""
        return self.phase in WAITING_PHASES or bool(self.tally[TaskStatus.PENDING])

    def granted(self, task: TaskFacts) -> int:
        """Return the priority of a pod by which it may evict others: the one that the API server gave to the pod.

        A user may name any PriorityClass on a Job, but a ResourceQuota may forbid it to the pods. So the class of the Job decides
        only for a native group, or for a pod without a priority. A pod that does not exist yet evicts nobody by another class.
        """
        spec, own = task.pod.spec, self.group.spec
        if own.priority is not None:
            return self.priority
        if spec.priority is not None:
            return spec.priority
        is_other = spec.priority_class_name not in {"", None, own.priority_class_name}
        return _LOWEST if is_other else self.priority

    @property
    def preemptor_priority(self) -> int:
        """The priority by which the gang may evict other gangs: the lowest of its pending pods, as it is placed as a whole."""
        return self._granted_range()[0]

    @property
    def lowest_priority(self) -> int:
        """The lowest priority of the pods that are on nodes: no pod of the job goes for a preemptor that is not above it."""
        return self._granted_range()[1]

    def _granted_range(self) -> tuple[int, int]:
        if self._granted is None:
            pending = (self.granted(task) for task in self.tasks if task.status is TaskStatus.PENDING)
            placed = (self.granted(task) for task in self.tasks if task.status is not TaskStatus.PENDING)
            self._granted = min(pending, default=self.priority), min(placed, default=self.priority)
        return self._granted

    @property
    def equivalence_class(self) -> bytes | None:
        """The equivalence class of the job, None if the job is the only member of its class.

        This class is only valid while no plugin reads pod labels beyond those that pods select by.
        """
        version, class_ = self._class
        if version != self._placement_labels.version:
            version, labels = self._placement_labels.version, self._placement_labels.keys
            class_ = equivalence_class(self.group, self.tasks, priority=self.priority, queue=self.queue, placement_labels=labels)
            self._class = version, class_
        return class_

    def is_of(self, class_: bytes) -> bool:
        """Whether `class_` is the present `equivalence_class` or `strict_class` of the job."""
        if class_ == self.equivalence_class:
            return True  # the strict class is seldom calculated
        return class_ == self.strict_class

    @property
    def strict_class(self) -> bytes | None:
        """The equivalence class of the job for configurations in which plugins may read any pod label."""
        if self._strict_class is ...:
            self._strict_class = equivalence_class(self.group, self.tasks, priority=self.priority, queue=self.queue)
        return self._strict_class

    @property
    def running_estimate(self) -> str:
        """The run time that the user declares, as a duration such as `2h`; empty if none is declared."""
        return self.group.metadata.annotations.get(keys.RUNNING_ESTIMATE, "")

    @property
    def declared_seconds(self) -> float | None:
        """The run time that the user declares, in seconds; None if it is missing, malformed or not positive."""
        text = self.running_estimate
        try:
            seconds = durations.nanoseconds(text) / 1e9 if text else 0.0
        except durations.DurationError:
            return None
        return seconds if seconds > 0 else None

    @property
    def releasing_on_node(self) -> int:
        """The number of tasks that are being deleted and still occupy their node."""
        return self.sums.releasing

    def allocated(self, dimensions: Dimensions) -> Floats:
        """Return the sum of the requests of allocated tasks. The caller must not change the vector."""
        return self._vector("allocated", self.sums.allocated, dimensions)

    def pending(self, dimensions: Dimensions) -> Floats:
        """Return the sum of the requests of pending tasks. The caller must not change the vector."""
        return self._vector("pending", self.sums.pending, dimensions)

    def minimum(self, dimensions: Dimensions) -> Floats | None:
        """Return the minimum resources of the PodGroup, None if it declares none. The caller must not change the vector."""
        return None if self.min_resources is None else self._vector("minimum", self.min_resources, dimensions)

    def behind_gates(self, dimensions: Dimensions) -> Floats:
        """Return the requests of gated pods, see `TaskSums.gated`. The caller must not change the vector."""
        return self._vector("gated", self.sums.gated, dimensions)

    def _vector(self, name: str, amounts: Amounts, dimensions: Dimensions) -> Floats:
        names, vector = self._vectors.get(name, (None, None))
        if vector is None or names is not dimensions.names:  # the rows of resources change now and then
            vector = dimensions.asked(amounts)
            self._vectors[name] = dimensions.names, vector
        return vector
