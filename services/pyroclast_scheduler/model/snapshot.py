"""A snapshot: the state of the cluster on which one session decides. Nothing outside of the session changes it.

A search with snapshots of fewer items finds the items on which a session fails.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import Enum

import numpy as np

from pyroclast.api import records
from pyroclast.api.records.meta import Record
from pyroclast_scheduler.model.dimensions import Dimensions, Ints
from pyroclast_scheduler.model.features import NodeFeatures
from pyroclast_scheduler.model.job_facts import JobFacts
from pyroclast_scheduler.model.node_columns import Bools, Columns, Floats
from pyroclast_scheduler.model.objects import Objects
from pyroclast_scheduler.model.queues import QueueFacts
from pyroclast_scheduler.model.resource_sums import QueueSums
from pyroclast_scheduler.model.shapes import Port
from pyroclast_scheduler.model.tasks import TaskFacts


@dataclass(slots=True)
class Snapshot:
    """The state of the cluster on which one session decides.

    `names`, `nodes`, `is_ready`, `stamps`, `residents` and the columns have one entry per row of the node table.

    Attributes:
        is_ready: False for rows that are free, or whose node object is missing.
        residents: the pods on each node that use its resources.
        jobs: the jobs that the session must examine.
        features: the labels and taints of nodes; kept from session to session.
        touched: the rows whose feasibility for some pod may have changed since the previous snapshot; None for any row.
        candidates: unschedulable jobs of each equivalence class that the session may try too, oldest first; some may be outdated.
        let_in: the jobs with pods that passed the gate of their queue and are not allocated.
        promised: the jobs for which room is kept or would be if nothing held them up, see `model.promises`.
        is_coupled: whether the placement of some pod depends on other pods.
        held: the pods that wait because a bind of theirs was refused a moment ago.
        refused: the pods whose bind was refused and that have no node yet.
        unread_nodes: the nodes of which some fields cannot be read, with the reasons; what such a node offers is uncertain.
    """

    dimensions: Dimensions
    names: Sequence[str]
    rows: Mapping[str, int]
    nodes: Sequence[records.Node | None]
    is_ready: Bools
    stamps: Ints
    columns: Columns
    ports: dict[int, Counter[Port]]
    residents: Sequence[Sequence[TaskFacts]]
    jobs: Sequence[JobFacts]
    all_jobs: Mapping[str, JobFacts]
    queue_sums: Mapping[str, QueueSums]
    queues: Mapping[str, QueueFacts]
    features: NodeFeatures
    number: int = 0
    touched: frozenset[int] | None = None
    candidates: Sequence[Sequence[JobFacts]] = ()
    let_in: Sequence[JobFacts] = ()
    promised: Sequence[JobFacts] = ()
    is_coupled: bool = False
    held: frozenset[str] = frozenset()
    refused: frozenset[str] = frozenset()
    objects: Objects = field(default_factory=Objects)
    unread_nodes: Mapping[str, str] = field(default_factory=dict)

    @property
    def has_placeholders(self) -> bool:
        """Whether pods are bound to nodes whose objects are missing."""
        return bool(len(self.rows) > np.count_nonzero(self.is_ready))

    @property
    def total(self) -> Floats:
        """The sum of the allocatable amounts of all nodes."""
        return np.asarray(self.columns.allocatable[:, self.is_ready].sum(axis=1, dtype=np.float64))


class ItemKind(Enum):
    """The kinds of items that can be left out of a snapshot."""

    JOB = "job"
    QUEUE = "queue"
    NODE = "node"
    OBJECT = "object"


@dataclass(frozen=True, slots=True)
class SnapshotItem:
    """An item that can be left out of a snapshot. `record`: the record type, for objects only."""

    kind: ItemKind
    key: str
    record: type[Record] | None = None


@dataclass(frozen=True, slots=True)
class SnapshotPart:
    """A snapshot without the items `gone`."""

    snapshot: Snapshot
    gone: frozenset[SnapshotItem] = frozenset()

    def items(self, kind: ItemKind) -> list[SnapshotItem]:
        """Return the remaining items of one kind. Jobs that a session must examine are first."""
        return [item for item in _listed(self.snapshot, kind) if item not in self.gone]

    def without(self, items: Collection[SnapshotItem]) -> SnapshotPart:
        """Return the same snapshot without `items` as well."""
        return SnapshotPart(self.snapshot, self.gone.union(items))

    def made(self) -> Snapshot:
        """Return an independent snapshot, from which no state reaches other sessions.

        A pod is left out together with its job or its node, but the amounts that it uses on its node stay in the columns. A node
        that is left out becomes a row that no session uses, like a node whose object is missing.
        """
        whole, gone = self.snapshot, self.gone
        jobs = {item.key for item in gone if item.kind is ItemKind.JOB}
        queues = {item.key for item in gone if item.kind is ItemKind.QUEUE}
        rows = {whole.rows[item.key] for item in gone if item.kind is ItemKind.NODE}
        is_ready = whole.is_ready.copy()
        is_ready[list(rows)] = False
        return replace(
            whole,
            nodes=tuple(None if row in rows else node for row, node in enumerate(whole.nodes)),
            is_ready=is_ready,
            columns=whole.columns.copy(),
            residents=tuple(
                () if row in rows else tuple(task for task in tasks if task.job not in jobs) if jobs else tasks
                for row, tasks in enumerate(whole.residents)
            ),
            jobs=[facts for facts in whole.jobs if facts.key not in jobs],
            candidates=[[facts for facts in order if facts.key not in jobs] for order in whole.candidates],
            let_in=[facts for facts in whole.let_in if facts.key not in jobs],
            all_jobs={key: facts for key, facts in whole.all_jobs.items() if key not in jobs},
            queues={name: queue for name, queue in whole.queues.items() if name not in queues},
            queue_sums={name: sums for name, sums in whole.queue_sums.items() if name not in queues},
            features=NodeFeatures(),
            objects=_objects(whole.objects, gone),
        )


def _listed(snapshot: Snapshot, kind: ItemKind) -> list[SnapshotItem]:
    match kind:
        case ItemKind.JOB:
            keys = dict.fromkeys([*(facts.key for facts in snapshot.jobs), *snapshot.all_jobs])
            return [SnapshotItem(kind, key) for key in keys]
        case ItemKind.QUEUE:
            return [SnapshotItem(kind, name) for name in sorted(snapshot.queues)]
        case ItemKind.NODE:
            return [SnapshotItem(kind, name) for name, row in snapshot.rows.items() if snapshot.nodes[row] is not None]
        case ItemKind.OBJECT:
            return [SnapshotItem(kind, key, record) for record, found in snapshot.objects.found.items() for key in found]


def _objects(whole: Objects, gone: Collection[SnapshotItem]) -> Objects:
    missing = {(item.record, item.key) for item in gone if item.kind is ItemKind.OBJECT}
    if not missing:
        return whole
    return Objects({
        record: {key: each for key, each in found.items() if (record, key) not in missing}
        for record, found in whole.found.items()
    })  # fmt: skip
