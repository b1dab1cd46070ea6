"""Started gangs that lack members, in one session: they go first, and the places of lost members are kept for some time.

The action allocate places what such a gang lacks before the jobs with at most its priority, in whatever queue. For members whose
replacements do not exist yet, it places the lost pods instead, on a twin of the job. These placements are never committed: they
occupy room until the session ends, so that no other job gets it. They end `recoveryPeriods` after the gang last lost or got a
member, since a replacement may never come. An overused queue keeps no places, so that evictions still end.

Invariant: a place is kept only for a gang that has allocated members, for a limited time, and never from a more important job.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

import msgspec
import numpy as np

from pyroclast_scheduler.model.dimensions import Ints
from pyroclast_scheduler.model.hypernodes import is_constrained
from pyroclast_scheduler.model.job_facts import JobFacts
from pyroclast_scheduler.model.jobs import Job
from pyroclast_scheduler.model.node_columns import Bools
from pyroclast_scheduler.model.tasks import Task, TaskStatus
from pyroclast_scheduler.placement.placer import Batch
from pyroclast_scheduler.placement.plans import PlacementPlan
from pyroclast_scheduler.session.arguments import Arguments
from pyroclast_scheduler.session.session import Session
from pyroclast_scheduler.session.statement import Statement
from pyroclast_scheduler.session.task_placement import find

_PERIODS: Final = 60  # a pod is deleted within 30 s by default, and made again within seconds
_LOST: Final = "recovery.lost"
_KEPT: Final = "recovery.kept"


@dataclass(frozen=True, slots=True)
class KeptRoom:
    """The place that is kept for a lost member. `request`: its vector. `left`: the schedule periods for which it is kept."""

    gang: JobFacts
    row: int
    request: Ints
    left: int


def periods_of(arguments: Arguments) -> int:
    """Return for how many schedule periods the places of lost members are kept: `recoveryPeriods` (60); 0 for none."""
    return arguments.integer("recoveryPeriods", _PERIODS, least=0, most=1_000_000)


class Recovery:
    """The started gangs that lack members, `session.once(Recovery)`. `kept`: the places that are kept so far in the session."""

    def __init__(self, session: Session) -> None:
        self.kept: list[KeptRoom] = []
        self._session = session
        self._statement: Statement | None = None
        self._short: list[JobFacts] | None = None
        memory = session.ports.memory
        if memory.pop(_KEPT, False):  # results of the last session may be wrong without the places that it kept
            for name in [name for name, value in memory.items() if getattr(value, "is_derived", False)]:
                del memory[name]

    def goes_first(self, job: Job) -> bool:
        """Whether `job` is a started gang that lacks members, and a plugin knows gangs."""
        return job.facts.lacks_members and bool(self._session.all_of("job_ready"))

    def next(self, priority: int | None) -> JobFacts | None:
        """Remove and return the most important gang that lacks members; None without one of at least `priority`, if given."""
        short = self._gangs()
        if not short or (priority is not None and short[-1].priority < priority):
            return None
        return short.pop()

    @property
    def is_over(self) -> bool:
        """Whether `next` has returned all gangs."""
        return not self._gangs()

    def _gangs(self) -> list[JobFacts]:
        """Return the gangs that lack members, the most important last."""
        if self._short is None:
            session = self._session
            found = {facts.key: facts for facts in session.snapshot.promised if facts.lost}
            found |= {key: job.facts for key, job in session.jobs.items() if job.facts.lacks_members}
            self._short = sorted(
                found.values() if found and session.all_of("job_ready") else (),
                key=lambda facts: (-facts.priority, *facts.arrived, facts.uid),
                reverse=True,
            )
            self._forget(found)
        return self._short

    def _forget(self, found: Iterable[str]) -> None:
        lost: dict[str, tuple[int, tuple[int, ...]]] = self._session.ports.memory.get(_LOST, {})
        for key in lost.keys() - set(found):
            del lost[key]

    def _left(self, facts: JobFacts) -> int:
        """Return for how many schedule periods places are kept for a gang, from its last change on."""
        session = self._session
        periods, now = periods_of(session.arguments_of("allocate")), session.ports.period
        lost = session.ports.memory.setdefault(_LOST, {})
        state = tuple(facts.tally.counts)
        if lost.get(facts.key, (0, ()))[1] != state:
            lost[facts.key] = now, state
        return int(lost[facts.key][0] + periods - now)

    def keep(self, job: Job) -> None:
        """Keep places for the lost members of `job`: where they were, or anywhere if the job may be anywhere."""
        session, facts = self._session, job.facts
        left = self._left(facts) if facts.lost else 0
        lost = [each for each in facts.lost if each.status is not TaskStatus.RELEASING or self._is_gone(each.node)]
        if left <= 0 or not lost:
            return
        spare = [
            msgspec.structs.replace(
                each, uid=f"kept-{number}-{each.uid}", status=TaskStatus.PENDING, node="", nominated="", gates=()
            )
            for number, each in enumerate(lost)
        ]
        twin = session.twin_of(job, spare)
        tasks = {task.uid: task for task in twin.tasks}
        self._statement = self._statement or session.statement()
        for before, each in zip(lost, spare, strict=True):
            task = tasks[each.uid]
            plan = session.plan(each.shape)
            batch = self._place(twin, task, plan, before.node)
            if batch is not None:
                put = self._statement.pipeline if batch.is_promise else self._statement.allocate
                if put(twin, plan, [task], batch.rows):
                    self.kept.append(KeptRoom(facts, int(batch.rows[0]), plan.request, left))

    def _place(self, twin: Job, task: Task, plan: PlacementPlan, node: str) -> Batch | None:
        session, spec = self._session, twin.facts.group.spec
        if not session.allocatable(session.queues[twin.facts.queue], plan, 1, task) or session.pre_predicate(task, plan):
            return None
        row = session.snapshot.rows.get(node)
        if row is not None:
            there: Bools = np.zeros(len(session.names), dtype=np.bool_)
            there[row] = True
            batch = find(session, twin, task, plan, 1, within=there)
            if batch is not None:
                return batch
        if spec.tree is not None or spec.topology_key or is_constrained(twin, session.hyper_nodes):
            return None  # where the other members are decides which nodes are left
        return find(session, twin, task, plan, 1)

    def _is_gone(self, node: str) -> bool:
        row = self._session.snapshot.rows.get(node)
        return row is None or not self._session.nodes.usable[row] or bool(self._session.features.unready()[row])

    def release(self) -> None:
        """Undo the kept places at the end of the session, before results are reported."""
        if self._statement is not None and self._statement.moves:
            self._session.ports.memory[_KEPT] = True
            self._statement.discard()
