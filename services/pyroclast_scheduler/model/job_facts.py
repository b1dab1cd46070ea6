"""What the scheduler knows of one group and its pods at the time of a snapshot."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from types import EllipsisType

from pyroclast.api import keys
from pyroclast.api.enums import PodGroupPhase
from pyroclast.resources import durations
from pyroclast_scheduler.model.booleans import parse_bool
from pyroclast_scheduler.model.dimensions import Amounts, Dimensions, amounts_of
from pyroclast_scheduler.model.equivalence_classes import equivalence_class
from pyroclast_scheduler.model.groups import Group
from pyroclast_scheduler.model.minded_labels import MindedLabels
from pyroclast_scheduler.model.node_columns import Floats
from pyroclast_scheduler.model.resource_sums import Contribution, TaskSums
from pyroclast_scheduler.model.statuses import ALLOCATED, TaskStatus
from pyroclast_scheduler.model.task_counts import Tally
from pyroclast_scheduler.model.tasks import TaskFacts, seconds_of

__all__ = ["JobFacts"]

_NOTHING: Amounts = {}
_WAITING_PHASES = frozenset({PodGroupPhase.PENDING, PodGroupPhase.INQUEUE, PodGroupPhase.UNKNOWN})


class JobFacts:
    """One group with its tasks at the time of a snapshot; never changed afterwards, so that sessions share it.

    Raises (when made):
        ValueError: a quantity of the PodGroup makes no sense.

    `is_preemptable`: whether the PodGroup offers its pods for preemption; `may_be_preempted`: whether it lets whole gangs take
    its place, as it does unless it says otherwise. `minded`: the labels that decide where pods go. `contribution`: what it adds
    to the sums of its queue. `is_ours`: this scheduler places its pods, if it has any.
    """

    __slots__ = (
        "_kind",
        "_minded",
        "_strict_kind",
        "_vectors",
        "contribution",
        "created",
        "group",
        "is_ours",
        "is_preemptable",
        "key",
        "may_be_preempted",
        "min_available",
        "min_resources",
        "name",
        "namespace",
        "priority",
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
        minded: MindedLabels,
        is_ours: bool = True,
    ) -> None:
        spec, meta = group.spec, group.metadata
        self.group = group
        self.is_ours = is_ours
        self.key = group.key
        self.uid = meta.uid
        self.namespace = meta.namespace
        self.name = meta.name
        self.queue = queue
        self.priority = priority
        self.created = seconds_of(meta.creation_timestamp)
        self.min_available = spec.min_member
        self.role_minimum = spec.min_task_member
        self.min_resources: Amounts | None = (
            spec.member_resources if spec.min_resources is None else amounts_of(spec.min_resources)
        )
        self.tasks = tasks
        self.sums = sums
        self._minded = minded
        self._strict_kind: bytes | EllipsisType | None = ...
        self._kind: tuple[int, bytes | None] = (-1, None)
        self._vectors: dict[str, tuple[Sequence[str], Floats]] = {}
        text = meta.annotations.get(keys.PREEMPTABLE, meta.labels.get(keys.PREEMPTABLE))
        self.is_preemptable = bool(parse_bool(text or ""))
        self.may_be_preempted = text is None or bool(parse_bool(text))
        self.contribution = self._contribution()

    @classmethod
    def of(cls, group: Group, tasks: Iterable[TaskFacts], *, priority: int = 0, queue: str = "") -> JobFacts:
        """The facts of a group with these tasks, summed up anew."""
        listed, sums = tuple(tasks), TaskSums()
        for task in listed:
            sums.add(task)
        return cls(group, listed, sums, priority=priority, queue=queue, minded=MindedLabels())

    @property
    def tally(self) -> Tally:
        """How many tasks stand where. Not to be changed."""
        return self.sums.tally

    @property
    def phase(self) -> PodGroupPhase:
        """The PodGroup's phase."""
        return self.group.status.phase

    @property
    def is_waiting(self) -> bool:
        """Whether it waits for anything: to be let in, for members, or for places of some."""
        return self.phase in _WAITING_PHASES or bool(self.tally[TaskStatus.PENDING])

    @property
    def kind(self) -> bytes | None:
        """What it has in common with jobs that get the same as it, younger ones after it; None if there are no such.

        This holds where no plugin reads labels of pods.
        """
        version, found = self._kind
        if version != self._minded.version:
            version, minded = self._minded.version, self._minded.keys
            found = equivalence_class(self.group, self.tasks, priority=self.priority, queue=self.queue, minded=minded)
            self._kind = version, found
        return found

    def is_of(self, kind: bytes) -> bool:
        """Whether `kind` is that of the job now, by either measure."""
        if kind == self.kind:
            return True
        return kind == self.strict_kind

    @property
    def strict_kind(self) -> bytes | None:
        """The same where plugins may read any label of pods."""
        if self._strict_kind is ...:
            self._strict_kind = equivalence_class(self.group, self.tasks, priority=self.priority, queue=self.queue)
        return self._strict_kind

    @property
    def running_estimate(self) -> str:
        """How long its user thinks it runs, a duration; empty without one."""
        return self.group.metadata.annotations.get(keys.RUNNING_ESTIMATE, "")

    @property
    def declared_seconds(self) -> float | None:
        """The same in seconds; None where it is not readable, or not above 0."""
        text = self.running_estimate
        try:
            seconds = durations.nanoseconds(text) / 1e9 if text else 0.0
        except durations.DurationError:
            return None
        return seconds if seconds > 0 else None

    @property
    def gated(self) -> Amounts:
        """What the pods ask for that wait behind a gate, except those that wait for the queue's own gate alone."""
        return self.sums.gated

    @property
    def releasing_on_node(self) -> int:
        """Tasks that are going but still sit on a node."""
        return self.sums.releasing

    def _contribution(self) -> Contribution:
        allocated, least = self.sums.allocated, self.min_resources
        inqueue = whole = _NOTHING
        if least is not None:
            if self.phase is PodGroupPhase.INQUEUE:
                inqueue, whole = self._owed(least, allocated), self._owed(least, _NOTHING)
            elif self.is_running_with_minimum:
                inqueue = whole = self._owed(least, allocated)
        elastic = allocated if least is None else _beyond(allocated, least)
        return Contribution(self.queue, allocated, self.sums.pending, elastic, inqueue, whole)

    @property
    def is_running_with_minimum(self) -> bool:
        """Whether it runs with at least its minimum of members, and may still be owed resources."""
        if self.phase is not PodGroupPhase.RUNNING or self.min_resources is None:
            return False
        return sum(self.tally[status] for status in ALLOCATED) >= self.min_available

    def allocated(self, dimensions: Dimensions) -> Floats:
        """The sum of the requests of tasks that have their place. Not to be changed."""
        return self._vector("allocated", self.sums.allocated, dimensions)

    def pending(self, dimensions: Dimensions) -> Floats:
        """The sum of the requests of tasks that wait for a place. Not to be changed."""
        return self._vector("pending", self.sums.pending, dimensions)

    def minimum(self, dimensions: Dimensions) -> Floats | None:
        """What the PodGroup says it needs at least; None if it says nothing. Not to be changed."""
        return None if self.min_resources is None else self._vector("minimum", self.min_resources, dimensions)

    def behind_gates(self, dimensions: Dimensions) -> Floats:
        """What the pods ask for that wait behind gates of others. Not to be changed."""
        return self._vector("gated", self.gated, dimensions)

    def _owed(self, least: Amounts, has: Amounts) -> Amounts:
        """What of its minimum it will still take, less what waits behind gates of others."""
        rest = _beyond(least, has)
        return _beyond(rest, self.gated) if self.gated else rest

    def _vector(self, name: str, amounts: Amounts, dimensions: Dimensions) -> Floats:
        names, vector = self._vectors.get(name, (None, None))
        if vector is None or names is not dimensions.names:  # resources get other rows now and then
            vector = dimensions.asked(amounts)
            self._vectors[name] = dimensions.names, vector
        return vector


def _beyond(amounts: Amounts, less: Amounts) -> Amounts:
    """What is left of `amounts` without `less`, never less than nothing."""
    return {name: rest for name, amount in amounts.items() if (rest := amount - less.get(name, 0)) > 0} or _NOTHING
