"""A snapshot: the cluster as one session sees it, shared by nobody who changes it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from pyroclast.api import records
from pyroclast_scheduler.model.dimensions import Dimensions, Ints
from pyroclast_scheduler.model.features import NodeFeatures
from pyroclast_scheduler.model.job_facts import JobFacts
from pyroclast_scheduler.model.node_columns import Bools, Columns, Floats
from pyroclast_scheduler.model.objects import Objects
from pyroclast_scheduler.model.queues import QueueFacts
from pyroclast_scheduler.model.resource_sums import QueueSums
from pyroclast_scheduler.model.shapes import Port
from pyroclast_scheduler.model.tasks import TaskFacts

__all__ = ["Snapshot"]


@dataclass(slots=True)
class Snapshot:
    """The state of the cluster that one session decides on.

    `names`, `nodes`, `is_ready`, `stamps` and the columns have one entry per row of the node table. Rows of which `is_ready` is
    False are free or placeholders. `residents` are the pods on each node that take room. `is_coupled`: some pod cares where
    others are. `jobs`: those that a session has to look at. `lines`: the waiting jobs of each kind that it may ask too, oldest
    first; some of them do not wait any more. `let_in`: jobs with pods that went through their queue's gate and wait for a
    place. `all_jobs`: all of them by key. `queue_sums`: what the jobs of each queue have and want together. Pods that are
    `held` wait because a bind of them was refused a moment ago; `refused` are those whose bind was refused and that have no
    node yet. `features` goes from session to session. `objects` are those that plugins asked for. `touched`: rows where others
    could go for a pod than when the snapshot of the `number` before was taken; None: anywhere.
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
    lines: Sequence[Sequence[JobFacts]] = ()
    let_in: Sequence[JobFacts] = ()
    is_coupled: bool = False
    held: frozenset[str] = frozenset()
    refused: frozenset[str] = frozenset()
    objects: Objects = field(default_factory=Objects)

    @property
    def has_placeholders(self) -> bool:
        """Whether pods have nodes that are not there."""
        return bool(len(self.rows) > np.count_nonzero(self.is_ready))

    @property
    def total(self) -> Floats:
        """The sum of what all nodes have to give."""
        return np.asarray(self.columns.allocatable[:, self.is_ready].sum(axis=1, dtype=np.float64))
