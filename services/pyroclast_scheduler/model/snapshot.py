"""A snapshot: the state of the cluster on which one session decides. Nothing outside of the session changes it."""

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


@dataclass(slots=True)
class Snapshot:
    """The state of the cluster on which one session decides.

    `names`, `nodes`, `is_ready`, `stamps`, `residents` and the columns have one entry per row of the node table.

    Attributes:
        is_ready: False for rows that are free, or whose node object is missing.
        residents: the pods on each node that use its resources.
        jobs: the jobs that the session must examine.
        all_jobs: all jobs by key.
        queue_sums: sums over the jobs of each queue.
        features: the labels and taints of nodes; kept from session to session.
        number: the number of the snapshot.
        touched: the rows whose feasibility for some pod may have changed since the previous snapshot; None for any row.
        lines: the waiting jobs of each kind that the session may try too, oldest first; some may have stopped waiting.
        let_in: the jobs with pods that passed the gate of their queue and are not allocated.
        promised: the jobs for which room is kept or would be if nothing held them up, see `model.promises`.
        is_coupled: whether the placement of some pod depends on other pods.
        held: the pods that wait because a bind of theirs was refused a moment ago.
        refused: the pods whose bind was refused and that have no node yet.
        objects: the objects that plugins watch.
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
    lines: Sequence[Sequence[JobFacts]] = ()
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
