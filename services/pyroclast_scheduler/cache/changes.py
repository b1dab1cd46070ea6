"""What changed since the last search for jobs to retry, and whether changed nodes may have room now.

Every event is recorded in `Changes`, and in no other place: the search reads them all at once, so that a thousand events of one
node cost as much as one. The functions before it decide which differences count: reports of running pods and of the scheduler's
own writes must not start a session. `Rooms` and `Victims` exclude most waiting jobs with a few sums over the changed rows. They
may say yes in vain, which costs one attempt, but never no in vain, which would leave a job waiting.
"""

from __future__ import annotations

from collections.abc import Mapping
from collections.abc import Set as AbstractSet
from copy import copy
from typing import Final, Protocol

import msgspec
import numpy as np

from pyroclast.api import keys, records
from pyroclast.api.records.meta import ObjectRecord, Record
from pyroclast.lifecycle.gang.groups import Group
from pyroclast_scheduler.model.dimensions import Amounts, Dimensions, Ints
from pyroclast_scheduler.model.job_facts import JobFacts
from pyroclast_scheduler.model.node_columns import Columns, Rows
from pyroclast_scheduler.model.shapes import Shape
from pyroclast_scheduler.model.tasks import ALLOCATED, TaskFacts, TaskStatus
from pyroclast_scheduler.model.triggers import Eviction, Room

_COUNTED_APART: Final = frozenset({TaskStatus.SUCCEEDED, TaskStatus.FAILED, TaskStatus.RELEASING})


def count_alike(old: TaskFacts, new: TaskFacts) -> bool:
    """Whether both tasks use the same amounts of the same node."""
    if old.node != new.node or old.shape is not new.shape:
        return False
    return old.status is new.status or not (new.node and {old.status, new.status} & _COUNTED_APART)


def alike(old: TaskFacts, new: TaskFacts) -> bool:
    """Whether nothing changed that a session examines. Status reports of running pods must not start a session."""
    return old.status is new.status and old.node == new.node and old.shape is new.shape and _looked_at(old) == _looked_at(new)


def _looked_at(task: TaskFacts) -> tuple[object, ...]:
    return (
        task.gates,
        task.priority,
        task.job,
        task.role,
        task.part,
        task.is_preemptable,
        task.has_started,
        task.pod.metadata.labels,
        task.nominated,
        task.pod.status.resource_claim_statuses,
    )


def same_but_status(old: Group, new: Group) -> bool:
    """Whether two PodGroups differ at most in the counts and conditions of their status."""
    a, b = old.metadata, new.metadata
    return (
        old.spec == new.spec
        and _same_annotations(a.annotations, b.annotations)
        and a.labels == b.labels
        and old.status.phase == new.status.phase
    )


def same_but_version(old: Group | ObjectRecord, new: Group | Record) -> bool:
    """Whether two objects, in the fields that are decoded, differ at most in their resource version."""
    metadata = msgspec.structs.replace(old.metadata, resource_version=new.metadata.resource_version)
    return metadata == new.metadata and msgspec.structs.replace(old, metadata=metadata) == new


def same_queue(old: records.Queue, new: records.Queue) -> bool:
    """Whether two queues differ at most in the counts of their status. Plugins may read annotations, so these are compared."""
    a, b = old.metadata, new.metadata
    return (
        a.name == b.name
        and a.uid == b.uid
        and old.spec == new.spec
        and a.annotations == b.annotations
        and a.labels == b.labels
        and old.status.state == new.status.state
    )


def same_but_told(old: Group, new: Group) -> bool:
    """Whether two PodGroups differ at most in their version and in the scheduler's own annotation on why they wait."""
    if not _same_annotations(old.metadata.annotations, new.metadata.annotations):
        return False
    metadata = msgspec.structs.replace(old.metadata, annotations=new.metadata.annotations)
    return same_but_version(msgspec.structs.replace(old, metadata=metadata), new)


def _same_annotations(old: Mapping[str, str], new: Mapping[str, str]) -> bool:
    """Whether two sets of annotations are equal except for the scheduler's annotation on why the PodGroup waits."""
    if old == new:
        return True
    return {**old, keys.WAITING: ""} == {**new, keys.WAITING: ""}


_MANY_JOBS: Final = 10_000  # changed jobs since the last search; above this number, all jobs count as changed
_MANY_OBJECTS: Final = 100_000  # changed objects; above this number, everything counts as changed
_MANY_LABELS: Final = 100_000  # label values of changed pods; above this number, all pods count as changed


class Changes:
    """Collects changes until `taken` is called.

    Attributes:
        is_any: a change that may alter the decisions of a session.
        is_all: a change that may affect any job.
        queues: queues that were created, changed or deleted, or that may use more.
        used: queues whose jobs have other allocated or requested amounts.
        holders: jobs whose pods were placed or removed. The sums do not show this if both happen between two searches.
        rows: nodes that may hold more than before.
        labels: the labels of pods that were placed on nodes, left nodes, or changed on nodes.
        are_neighbours: such a pod has anti-affinity terms, or a node was created, deleted, or changed in more than its room.
        are_claims_released: a pod with claims left a node.
        are_devices_released: the allocation of a ResourceClaim ended.
        objects: changed objects, by type and key, whose jobs are found by the trigger ObjectChange.
        jobs: jobs whose possible victims changed: pods on nodes, or the PodGroup.
        is_demand: amounts of queues changed, so that the amounts which queues may reclaim from each other may have changed.
        are_victims: a queue, node or priority changed, so that all possible victims may have changed.
    """

    def __init__(self) -> None:
        self.is_any = True
        self._begin()

    def _begin(self) -> None:
        self.is_all = self.are_neighbours = self.is_demand = self.are_victims = False
        self.are_claims_released = self.are_devices_released = False
        self.objects: set[tuple[type[Record], str]] = set()
        self.queues: set[str] = set()
        self.used: set[str] = set()
        self.holders: set[str] = set()
        self.rows: set[int] = set()
        self.labels: set[tuple[str, str]] = set()
        self.jobs: set[str] = set()

    def taken(self) -> Changes:
        """Return all changes and start again with none."""
        found = copy(self)
        self.is_any = False
        self._begin()
        return found

    def everything(self) -> None:
        """Record a change that may affect any job."""
        self.is_all = self.is_any = True

    def queue(self, name: str) -> None:
        """Record that a queue was created, changed or deleted, which affects the jobs of the queue and its descendants."""
        self.queues.add(name)
        self.are_victims = self.is_any = True

    def group(self, key: str) -> None:
        """Record that a PodGroup was created, changed or deleted."""
        self._job(key)
        self.is_demand = True

    def pod(self, before: TaskFacts | None, task: TaskFacts | None) -> None:
        """Record that a pod was created, changed or deleted."""
        if before is not None and task is not None and alike(before, task):
            return
        holds_other = before is None or task is None or not before.node or _holds(before) != _holds(task)
        self.is_demand |= holds_other
        for each in (before, task):
            if each is not None and each.node:
                self._job(each.job)
                self._neighbour(each)
                if holds_other:
                    self.holders.add(each.job)

    def leaves(self, task: TaskFacts) -> None:
        """Record that a pod leaves its node."""
        self.are_claims_released |= task.shape.has_claims

    def gives_up(self, task: TaskFacts, queue: str) -> None:
        """Record that room which a session had reserved for a pod is free again."""
        self.is_any = True
        self.used.add(queue)
        self._neighbour(task)
        self.leaves(task)

    def object(self, old: Record | None, new: Record | None) -> None:
        """Record that an object was created, changed or deleted whose jobs are found by the trigger ObjectChange."""
        self.is_any = True
        self.are_devices_released |= _has_devices(old) and not _has_devices(new)
        self.objects.update((type(each), str(each.key)) for each in (old, new) if each is not None)
        if len(self.objects) > _MANY_OBJECTS:
            self.everything()

    def _neighbour(self, task: TaskFacts) -> None:
        self.labels.update(task.pod.metadata.labels.items())
        self.are_neighbours |= bool(task.shape.required("podAntiAffinity"))
        if len(self.labels) > _MANY_LABELS:
            self.labels.clear()
            self.are_neighbours = True

    def _job(self, key: str) -> None:
        self.jobs.add(key)
        if len(self.jobs) > _MANY_JOBS:
            self.jobs.clear()
            self.holders.clear()
            self.are_victims = True


def _has_devices(record: Record | None) -> bool:
    """Whether the object is a ResourceClaim with an allocation."""
    return isinstance(record, records.ResourceClaim) and record.status.allocation is not None


def _holds(task: TaskFacts) -> tuple[bool, str, Amounts]:
    """Return the properties of a pod that count for its queue."""
    return task.status in ALLOCATED, task.job, task.shape.request


_MANY_ROWS: Final = 200  # above this number, all pods on these nodes count as possible victims
_MANY_PODS: Final = 5000  # pods of changed jobs; above this number, all nodes count as changed
_ALL: Final = "*"  # no queue has this name
_MANY_COPIES: Final = 2**31  # copies of one pod on a node, for a pod without requests


class NodeRows(Protocol):
    """What the rooms read of the table of nodes."""

    columns: Columns
    dimensions: Dimensions
    rows: dict[str, int]
    residents: list[tuple[TaskFacts, ...]]


class Rooms:
    """The changed nodes, whose room may suffice for a pod now. `nodes`: the table of all nodes, read at each call."""

    def __init__(self, changes: Changes, nodes: NodeRows) -> None:
        self._nodes = nodes
        self._rows = np.fromiter(changes.rows, dtype=np.intp, count=len(changes.rows))
        self._is_open: dict[Shape, bool] = {}
        self._all: dict[Shape, int] = {}
        self._most: dict[str, int] = {}

    def may_hold(self, room: Room) -> bool:
        """Whether a changed node has room for one pod, and all nodes together have room for all pods of the trigger."""
        shape = room.shape
        if shape not in self._is_open:
            is_short = any(amount and amount > self._most_free(name) for name, amount in shape.request.items())
            self._is_open[shape] = not is_short and bool(self._copies(shape, self._rows).any())  # most shapes are short
        if not self._is_open[shape] or room.pods <= 1:
            return self._is_open[shape]
        if shape not in self._all:
            self._all[shape] = int(self._copies(shape, np.arange(self._nodes.columns.nodes)).sum())
        return room.pods <= self._all[shape]

    def _most_free(self, name: str) -> int:
        if name not in self._most:
            free = self._nodes.columns.free(self._nodes.dimensions.row(name), self._rows, future=True)
            self._most[name] = int(free.max(initial=0))
        return self._most[name]

    def _copies(self, shape: Shape, rows: Rows) -> Ints:
        """Return how many more pods of `shape` each node has room for by its resources, once its releasing pods are gone."""
        copies = np.full(len(rows), _MANY_COPIES, dtype=np.int64)
        for name, amount in shape.request.items():
            free = self._nodes.columns.free(self._nodes.dimensions.row(name), rows, future=True)
            if amount:
                np.minimum(copies, np.maximum(free, 0) // amount, out=copies)
            elif not shape.is_best_effort:
                copies[free < 0] = 0
        return copies


class Victims:
    """The room that evictions could free on changed nodes. `placed`: the queues with allocated pods."""

    def __init__(self, changes: Changes, *, jobs: Mapping[str, JobFacts], placed: AbstractSet[str], nodes: NodeRows) -> None:
        self._is_any = changes.are_victims
        self._is_demand = changes.is_demand
        self._jobs = jobs
        self._nodes = nodes
        self._rooms: dict[str, _Room] = {}
        self._placed = placed
        changed = [facts for key in changes.jobs if (facts := jobs.get(key)) is not None]
        self._touched: dict[str, set[int]] = {"": changes.rows}
        self._is_everywhere = sum(len(each.tasks) for each in changed) > _MANY_PODS
        for each in changed if not self._is_everywhere else ():
            at = {nodes.rows[task.node] for task in each.tasks if task.node in nodes.rows}
            self._touched.setdefault(each.queue, set()).update(at)

    @property
    def rows(self) -> set[int] | None:
        """The rows that changed themselves, or on which changed jobs have pods; None if these may be all rows."""
        return None if self._is_any or self._is_everywhere else set().union(*self._touched.values())

    def may_help(self, wish: Eviction) -> bool:
        """Whether the changes allow evictions to make room for a pod for which they could not make room before."""
        is_anywhere = self._is_any or (self._is_demand and not wish.only_own and bool(self._placed - {wish.queue}))
        where = _ALL if is_anywhere else wish.queue if wish.only_own else ""
        if where not in self._rooms:
            amounts = self._nodes.columns.allocatable if is_anywhere else self._without_victims(wish)
            self._rooms[where] = _Room(amounts, self._nodes.dimensions)
        return any(map(self._rooms[where].may_hold, wish.shapes))

    def _without_victims(self, wish: Eviction) -> Ints:
        """Return the amounts that would be free on the changed rows without the possible victims."""
        columns, residents = self._nodes.columns, self._nodes.residents
        if self._is_everywhere:
            return columns.allocatable
        own = self._touched[""] | self._touched.get(wish.queue, set())
        touched = own if wish.only_own else set().union(*self._touched.values())
        rows = np.fromiter(touched, dtype=np.intp, count=len(touched))
        if len(rows) > _MANY_ROWS:
            return columns.allocatable[:, rows]
        room = columns.future_idle(rows)
        for at, row in enumerate(rows.tolist()):
            for task in residents[row] if row < len(residents) else ():
                owner = self._jobs.get(task.job)
                if owner is not None and task.is_preemptable and (owner.queue == wish.queue or not wish.only_own):
                    for name, amount in task.shape.request.items():
                        room[self._nodes.dimensions.row(name), at] += amount
        return room


class _Room:
    """Amounts that may be free on nodes, (dimensions, nodes)."""

    def __init__(self, amounts: Ints, dimensions: Dimensions) -> None:
        self._amounts, self._row = amounts, dimensions.row
        self._most = amounts.max(axis=1).tolist() if amounts.size else []

    def may_hold(self, shape: Shape) -> bool:
        """Whether a node has room for one pod."""
        asked = [(self._row(name), amount) for name, amount in shape.request.items()]
        if not self._most or any(amount > self._most[row] for row, amount in asked):
            return False  # most shapes are excluded here
        fits = np.ones(self._amounts.shape[1], dtype=np.bool_)
        for row, amount in asked:
            fits &= self._amounts[row] >= amount
        return bool(fits.any())
