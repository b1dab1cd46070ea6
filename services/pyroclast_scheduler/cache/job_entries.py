"""What the cache knows of one job: its group, its pods and their sums, and the pods of other schedulers."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import NamedTuple, Protocol

import msgspec

from pyroclast.lifecycle.gang.groups import Group, GroupStatus
from pyroclast_scheduler.model.resource_sums import Contribution, TaskSums
from pyroclast_scheduler.model.tasks import ALLOCATED, TaskFacts, TaskStatus, arrival_of, seconds_of

_MEMBERS = ALLOCATED | {TaskStatus.RELEASING, TaskStatus.FAILED}


class Stranger(NamedTuple):
    """A pending pod of another scheduler: the name of that scheduler, and the key of the group that the pod names."""

    scheduler: str
    group: str


class Source(Protocol):
    """An object, or a tree of objects, from which a group is read."""

    @property
    def uid(self) -> str:
        """The UID of the object that describes the group."""
        ...

    def read(self, entry: Entry) -> tuple[Group | None, bool]:
        """Return the group with the pods of `entry`, None if they are of others, and whether time alone may change it."""
        ...


@dataclass(slots=True)
class Entry:
    """The mutable state of a job. A job may have pods before it has a PodGroup.

    Attributes:
        believed: a status that is being written; None if there is none.
        tasks: the tasks of this scheduler and all tasks with a node, by UID.
        counted: the amounts that the job contributes to the sums of its queue at present.
        strangers: the pending pods of other schedulers, by UID.
        is_shared: whether sessions refer to `sums`, which must then be copied before a change.
        source: the source from which `group` is read again when a pod changes; None if the group does not depend on its pods.
        joined: when the last pod was added, in seconds.
        seen: the UID of the group, and the resource version with which it was first seen, see `TaskFacts.arrival`.
        first: the earliest pod: when it was created, and with which resource version it was first seen.
        departed: deleted pods that had a node, by name and in the order of their deletion, while their gang lacks members.
    """

    group: Group | None = None
    believed: GroupStatus | None = None
    tasks: dict[str, TaskFacts] = field(default_factory=dict)
    sums: TaskSums = field(default_factory=TaskSums)
    counted: Contribution | None = None
    strangers: dict[str, Stranger] = field(default_factory=dict)
    is_shared: bool = False
    source: Source | None = None
    joined: float = 0.0
    seen: tuple[str, int] = ("", 0)
    first: tuple[float, int] = (math.inf, 0)
    departed: dict[str, TaskFacts] = field(default_factory=dict)

    def arrived(self, group: Group) -> tuple[float, int]:
        """Return when the group or its earliest pod was created, whichever is earlier: a pod may be created before its group."""
        meta = group.metadata
        if self.seen[0] != meta.uid:
            self.seen = meta.uid, arrival_of(meta)
        return min((seconds_of(meta.creation_timestamp), self.seen[1]), self.first)

    def depart(self, task: TaskFacts) -> None:
        """Remember a deleted pod, whose room may be kept for a new one; only as many pods as the gang needs."""
        if task.node and task.status in _MEMBERS:
            self.departed.pop(task.name, None)
            self.departed[task.name] = task
            while len(self.departed) > max(1, 0 if self.group is None else self.group.spec.min_member):
                del self.departed[next(iter(self.departed))]

    def own_sums(self) -> TaskSums:
        """Return the sums for a change, copied if sessions refer to them."""
        if self.is_shared:
            self.sums, self.is_shared = self.sums.copy(), False
        return self.sums

    @property
    def current(self) -> Group | None:
        """The group with the status that is being written."""
        if self.group is None or self.believed is None:
            return self.group
        return msgspec.structs.replace(self.group, status=self.believed)
