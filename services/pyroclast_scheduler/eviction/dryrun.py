"""Dry runs: on some nodes it is tried which pods really have to go for a task, and the node that loses least is taken.

The mode of action preempt that looks at affinity and topology: a pod whose leaving does not help stays.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from pyroclast_scheduler.eviction.victims import first_to_go, has_enough
from pyroclast_scheduler.model.jobs import Job
from pyroclast_scheduler.model.reasons import Refusal
from pyroclast_scheduler.model.tasks import Task
from pyroclast_scheduler.placement.plans import PlacementPlan
from pyroclast_scheduler.session.arguments import Arguments
from pyroclast_scheduler.session.extension_points import Candidate
from pyroclast_scheduler.session.search import resolvable
from pyroclast_scheduler.session.session import Session

__all__ = ["DryRun", "Loss"]

_REASON = "preempt"
_SHIFT = 2**31  # makes every priority count as more than none


@dataclass(frozen=True, slots=True)
class Loss:
    """A node on which the task fits once `victims` are gone, the most important of them first."""

    row: int
    victims: Sequence[Candidate]

    def rank(self, now: float) -> tuple[float, ...]:
        """Smaller is better: priorities, their sum, how many, how long the most important ones have run, the row."""
        priorities = [task.facts.pod.spec.priority or 0 for _, task in self.victims]
        highest = [task for (_, task), each in zip(self.victims, priorities, strict=True) if each == max(priorities)]
        started = [task.facts.started or now for task in highest]
        return (priorities[0], sum(each + _SHIFT for each in priorities), len(priorities), -min(started), self.row)


@dataclass(frozen=True, slots=True)
class DryRun:
    """`percentage` of the nodes are tried until that many can be used, at least `least` and at most `most`.

    `sees_trials`: whether it counts for pods' affinity that victims would be gone.
    """

    session: Session
    percentage: int = 10
    least: int = 1
    most: int = 100
    sees_trials: bool = True

    @classmethod
    def of(cls, session: Session, arguments: Arguments) -> DryRun:
        """As the arguments of preempt say. Victims are only tried for pods' affinity where predicates may preempt or allocate."""
        entries = (entry for tier in session.configuration.tiers for entry in tier if entry.name == "predicates")
        return cls(
            session,
            arguments.integer("minCandidateNodesPercentage", 10),
            arguments.integer("minCandidateNodesAbsolute", 1),
            arguments.integer("maxCandidateNodesAbsolute", 100),
            any(entry.enabled & {"enablePreemptable", "enabledAllocatable"} for entry in entries),
        )

    def best(self, job: Job, task: Task, plan: PlacementPlan, residents: Callable[[int], Sequence[Candidate]]) -> Loss | None:
        """The node that loses least for `task`; `residents` gives the pods of a node that may go. None where none helps."""
        rows = np.flatnonzero(resolvable(self.session, job, task, plan)).tolist()
        enough = min(len(rows), max(self.least, min(self.most, len(rows) * self.percentage // 100)))
        trial = _Trial(
            self.session, job, task, plan, None if self.sees_trials else self.session.coupled_refusals(task, plan) or ()
        )
        found: list[Loss] = []
        for row in rows:
            loss = trial.loss(row, residents(row))
            if loss is not None:
                found.append(loss)
                if len(found) >= enough:
                    break
        return min(found, key=lambda loss: loss.rank(self.session.ports.now), default=None)


@dataclass(frozen=True, slots=True)
class _Trial:
    """One task. `before`: the refusals that count whoever goes; None: they are asked anew for each trial."""

    session: Session
    job: Job
    task: Task
    plan: PlacementPlan
    before: Sequence[Refusal] | None

    def loss(self, row: int, candidates: Sequence[Candidate]) -> Loss | None:
        """The pods that have to go on node `row`; None if that does not help, or none has to."""
        session, job = self.session, self.job
        victims = session.preemptable(self.task, job, candidates)
        if not has_enough(session, self.plan, row, victims):
            return None
        potential: list[Candidate] = []
        for victim in first_to_go(session, victims, session.queues[job.facts.queue]):
            potential.append(victim)
            if self._fits_without(row, potential):
                break
        else:
            return None
        kept = list(potential)
        for victim in reversed(potential):  # the most important ones may stay first
            rest = [each for each in kept if each is not victim]
            if self._fits_without(row, rest):
                kept = rest
        return Loss(row, kept[::-1]) if kept else None

    def _fits_without(self, row: int, gone: Sequence[Candidate]) -> bool:
        session, plan = self.session, self.plan
        statement = session.statement()
        for owner, victim in gone:
            statement.evict(owner, session.plan(victim.facts.shape), victim, _REASON)
        is_allowed = bool(session.allocatable(session.queues[self.job.facts.queue], plan, 1, self.task))
        is_room = bool(plan.room(np.array([row], dtype=np.intp), future=True)[0])
        refusals = session.coupled_refusals(self.task, plan) or () if self.before is None else self.before
        is_refused = any(refusal.nodes[row] for refusal in refusals)
        statement.discard()
        return is_allowed and is_room and not is_refused
