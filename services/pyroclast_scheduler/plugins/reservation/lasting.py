"""Lasting pods: pods that stay on a node while it drains, until someone deletes them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Final

from pyroclast_scheduler.model.dimensions import Amounts
from pyroclast_scheduler.model.tasks import TaskFacts


class LastingPods:
    """The requests of lasting pods on each node, kept from session to session. Only nodes whose pods changed are read again."""

    is_derived: Final = True

    def __init__(self) -> None:
        self._residents: list[Sequence[TaskFacts]] = []
        self._asked: dict[int, Amounts] = {}

    def of(self, residents: Sequence[Sequence[TaskFacts]]) -> Mapping[int, Amounts]:
        """Return the sum of their requests by row. `residents`: the pods of each row, as tuples that never change."""
        known = self._residents
        for row in range(len(residents), len(known)):
            self._asked.pop(row, None)
        for row, tasks in enumerate(residents):
            if row < len(known) and known[row] is tasks:
                continue
            asked: Counter[str] = Counter()
            for task in tasks:
                if is_lasting(task):
                    asked.update(task.shape.request)
            if asked:
                self._asked[row] = dict(asked)
            else:
                self._asked.pop(row, None)
        self._residents = list(residents)
        return self._asked


def is_lasting(task: TaskFacts) -> bool:
    """Whether a pod belongs to a DaemonSet or to the node itself, or to no group."""
    return not task.job or any(owner.kind in {"DaemonSet", "Node"} for owner in task.pod.metadata.owner_references)
