"""The nodes that a session or one of its jobs may use: by NodeShard, by reservation, and by a label value for a whole gang."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

from pyroclast_scheduler.model.features import NodeFeatures
from pyroclast_scheduler.model.fit_errors import Code, Refusal
from pyroclast_scheduler.model.jobs import Job
from pyroclast_scheduler.model.node_columns import Bools
from pyroclast_scheduler.model.reservations import Reservation
from pyroclast_scheduler.model.tasks import ALLOCATED, Task, TaskStatus
from pyroclast_scheduler.session.ports import Shard

_PLACED: Final = ALLOCATED | {TaskStatus.PIPELINED}

IN_SEVERAL_DOMAINS: Final = "cannot determine domain for already scheduled pods: "
"""The start of the reason for a gang with pods in several topology domains."""


class LabelRefusals:
    """The refusals of a session. `chosen`: by job and part, the code of the label value that a search for victims looks at."""

    def __init__(self, features: NodeFeatures) -> None:
        self._features = features
        self.chosen: dict[str, Mapping[str, int]] = {}

    def of_job(self, job: Job) -> list[Refusal]:
        """Return the refusals for a pod of `job`: nodes without the label, and nodes outside the domain of its other pods."""
        key = job.facts.group.spec.topology_key
        return self._refusals(job, key, job.tasks, "the group", "") if key else []

    def of_part(self, job: Job, task: Task) -> list[Refusal]:
        """Return the same refusals for each part of `job` to which `task` belongs."""
        refusals: list[Refusal] = []
        for part in job.path(task.facts.part):
            if part.topology_key:
                names = {path[-1].name for path in part.paths()}
                members = (each for each in job.tasks if each.facts.part in names)
                refusals += self._refusals(job, part.topology_key, members, part.name, part.name)
        return refusals

    def _refusals(self, job: Job, key: str, members: Iterable[Task], named: str, part: str) -> list[Refusal]:
        column, domains = self._features.label(key), self._features.domains(key)

        def refusal(nodes: Bools, reason: str) -> Refusal:
            return Refusal(nodes, reason, Code.UNRESOLVABLE, is_steady=True)

        without = refusal(~domains.has, f"node(s) without label {key}")
        rows = (
            [task.row for task in members if task.status in _PLACED and task.row >= 0]
            if any(job.tally[each] for each in _PLACED)
            else []
        )
        codes = np.unique(domains.codes[rows])
        if len(codes) > 1:
            names = ", ".join(sorted(str(column.values[code] or "") for code in codes))
            why = f"{IN_SEVERAL_DOMAINS}more than 1 domain found for pod group: {names}"
            return [refusal(np.ones_like(domains.has), why)]
        chosen = codes[0] if len(codes) else self.chosen.get(job.facts.key, {}).get(part)
        if chosen is not None:
            why = f"where other pods of {named} are" if len(codes) else f"where room is made for {named}"
            return [without, refusal(domains.codes != chosen, f"node(s) outside {key}={column.values[chosen]}, {why}")]
        # without a domain, the next pod of a part is bound to the domain of this one
        return [without, Refusal(np.zeros_like(domains.has), "")] if part else [without]


@dataclass(slots=True)
class Reserved:
    """The reservations by job: `current`, None if no plugin makes any, and the jobs with one `before` the session."""

    current: Mapping[str, Reservation] | None = None
    before: frozenset[str] = frozenset()

    def begin(self, current: Mapping[str, Reservation], before: Collection[str]) -> None:
        """Set the reservations of a plugin. The plugin may change `current` afterwards."""
        self.current, self.before = current, frozenset(before)

    def concerns(self, job: str) -> bool:
        """Whether the job of that key has a reservation, or had one at the start of the session."""
        return job in self.before or job in (self.current or ())

    def released(self) -> frozenset[str]:
        """Return the jobs whose reservation ended in this session."""
        return self.before.difference(self.current or ())


class OpenNodes:
    """Masks over the rows of the node table.

    Attributes:
        usable: nodes on which pods may be placed.
        preferred: nodes that are preferred to other usable ones; None without a preference.
        foreign: ready nodes that only another scheduler may use; None if there can be none.
    """

    def __init__(self, is_ready: Bools, names: Sequence[str], shard: Shard | None) -> None:
        self.usable: Bools = is_ready.copy()
        self.preferred: Bools | None = None
        self.foreign: Bools | None = None
        if shard is None:
            return
        own = np.fromiter((name in shard.nodes for name in names), dtype=np.bool_, count=len(names))
        if shard.is_hard:
            self.foreign = self.usable & ~own
            self.usable &= own
        else:
            self.preferred = own
