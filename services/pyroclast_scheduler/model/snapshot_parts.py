"""Parts of a snapshot: the same cluster with fewer items in it, for those who search what makes deciding fail."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, replace
from enum import Enum

from pyroclast.api.records.meta import Record
from pyroclast_scheduler.model.features import NodeFeatures
from pyroclast_scheduler.model.objects import Objects
from pyroclast_scheduler.model.snapshot import Snapshot

__all__ = ["SnapshotItem", "SnapshotPart", "Sort"]


class Sort(Enum):
    """What can be left out of a snapshot."""

    JOB = "job"
    QUEUE = "queue"
    NODE = "node"
    OBJECT = "object"


@dataclass(frozen=True, slots=True)
class SnapshotItem:
    """What can be left out. `key`: as the snapshot has it, for nodes the name; `record`: the type of an object."""

    sort: Sort
    key: str
    record: type[Record] | None = None


@dataclass(frozen=True, slots=True)
class SnapshotPart:
    """A snapshot without some items."""

    snapshot: Snapshot
    gone: frozenset[SnapshotItem] = frozenset()

    def items(self, sort: Sort) -> list[SnapshotItem]:
        """Those of a sort that are left, jobs that a session has to look at before the others."""
        return [item for item in _listed(self.snapshot, sort) if item not in self.gone]

    def without(self, items: Collection[SnapshotItem]) -> SnapshotPart:
        """The same without `items` too."""
        return SnapshotPart(self.snapshot, self.gone.union(items))

    def made(self) -> Snapshot:
        """A snapshot of its own, from which nothing goes to another session.

        Pods go with their job or their node; what they take of a node stays taken. A node without its object is a row that no
        session uses, as while its pods are known before it is.
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
