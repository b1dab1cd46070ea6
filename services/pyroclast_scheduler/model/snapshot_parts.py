"""Snapshots with fewer items. A search with these snapshots finds the items on which a session fails."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, replace
from enum import Enum

from pyroclast.api.records.meta import Record
from pyroclast_scheduler.model.features import NodeFeatures
from pyroclast_scheduler.model.objects import Objects
from pyroclast_scheduler.model.snapshot import Snapshot


class Sort(Enum):
    """The sorts of items that can be left out of a snapshot."""

    JOB = "job"
    QUEUE = "queue"
    NODE = "node"
    OBJECT = "object"


@dataclass(frozen=True, slots=True)
class SnapshotItem:
    """An item that can be left out of a snapshot.

    `key`: the key of the item in the snapshot, for nodes the name. `record`: the record type, for objects only.
    """

    sort: Sort
    key: str
    record: type[Record] | None = None


@dataclass(frozen=True, slots=True)
class SnapshotPart:
    """A snapshot without the items `gone`."""

    snapshot: Snapshot
    gone: frozenset[SnapshotItem] = frozenset()

    def items(self, sort: Sort) -> list[SnapshotItem]:
        """Return the remaining items of one sort. Jobs that a session must examine are first."""
        return [item for item in _listed(self.snapshot, sort) if item not in self.gone]

    def without(self, items: Collection[SnapshotItem]) -> SnapshotPart:
        """Return the same snapshot without `items` as well."""
        return SnapshotPart(self.snapshot, self.gone.union(items))

    def made(self) -> Snapshot:
        """Return an independent snapshot, from which no state reaches other sessions.

        A pod is left out together with its job or its node, but the amounts that it uses on its node stay in the columns. A node
        that is left out becomes a row that no session uses, like a node whose object is missing.
        """
        whole, gone = self.snapshot, self.gone
        jobs = {item.key for item in gone if item.sort is Sort.JOB}
        queues = {item.key for item in gone if item.sort is Sort.QUEUE}
        rows = {whole.rows[item.key] for item in gone if item.sort is Sort.NODE}
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
            lines=[[facts for facts in line if facts.key not in jobs] for line in whole.lines],
            let_in=[facts for facts in whole.let_in if facts.key not in jobs],
            all_jobs={key: facts for key, facts in whole.all_jobs.items() if key not in jobs},
            queues={name: queue for name, queue in whole.queues.items() if name not in queues},
            queue_sums={name: sums for name, sums in whole.queue_sums.items() if name not in queues},
            features=NodeFeatures(),
            objects=_objects(whole.objects, gone),
        )


def _listed(snapshot: Snapshot, sort: Sort) -> list[SnapshotItem]:
    match sort:
        case Sort.JOB:
            return [
                SnapshotItem(sort, key) for key in dict.fromkeys([*(facts.key for facts in snapshot.jobs), *snapshot.all_jobs])
            ]
        case Sort.QUEUE:
            return [SnapshotItem(sort, name) for name in sorted(snapshot.queues)]
        case Sort.NODE:
            return [SnapshotItem(sort, name) for name, row in snapshot.rows.items() if snapshot.nodes[row] is not None]
        case Sort.OBJECT:
            return [SnapshotItem(sort, key, record) for record, found in snapshot.objects.found.items() for key in found]


def _objects(whole: Objects, gone: Collection[SnapshotItem]) -> Objects:
    missing = {(item.record, item.key) for item in gone if item.sort is Sort.OBJECT}
    if not missing:
        return whole
    return Objects(
        {
            record: {key: each for key, each in found.items() if (record, key) not in missing}
            for record, found in whole.found.items()
        }
    )
