"""A snapshot: the cluster as one session sees it, shared by nobody who changes it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from pyroclast.api import records
from pyroclast_scheduler.model.columns import Bools, Columns
from pyroclast_scheduler.model.dimensions import Dimensions, Ints
from pyroclast_scheduler.model.jobs import JobFacts, QueueFacts
from pyroclast_scheduler.model.shapes import Port
from pyroclast_scheduler.model.tasks import TaskFacts
from pyroclast_scheduler.placement.features import NodeFeatures

__all__ = ["Snapshot"]


@dataclass(slots=True)
class Snapshot:
    """`names`, `nodes`, `is_ready`, `stamps` and the columns have one entry per row of the node table.

    Rows of which `is_ready` is False are free or placeholders. `placed` holds every pod that sits on a node, by UID;
    it is empty unless `is_coupled`: some pod cares
    where others are. `features` goes from session to session.
    """

    dimensions: Dimensions
    names: Sequence[str]
    rows: Mapping[str, int]
    nodes: Sequence[records.Node | None]
    is_ready: Bools
    stamps: Ints
    columns: Columns
    ports: dict[int, Counter[Port]]
    jobs: Sequence[JobFacts]
    queues: Mapping[str, QueueFacts]
    features: NodeFeatures
    placed: Mapping[str, TaskFacts] = field(default_factory=dict)
    is_coupled: bool = False

    @property
    def total(self) -> Ints:
        """The sum of what all nodes have to give."""
        return np.asarray(self.columns.allocatable[:, self.is_ready].sum(axis=1))
