"""Dry runs: on some nodes, evictions for a task are tried, and the node with the smallest loss is chosen.

This mode of the action preempt takes affinity and topology into account. Pods whose eviction does not help are spared.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from itertools import islice

import numpy as np

from pyroclast_scheduler.eviction.freeable import would_fit
from pyroclast_scheduler.eviction.search import VictimSearch, Wish
from pyroclast_scheduler.eviction.victims import first_to_go, needed
from pyroclast_scheduler.model.fit_errors import Refusal
from pyroclast_scheduler.session.arguments import Arguments
from pyroclast_scheduler.session.extension_points import Candidate
from pyroclast_scheduler.session.search import resolvable
from pyroclast_scheduler.session.session import Session

_SHIFT = 2**31  # makes every priority positive, so that each victim counts


@dataclass(frozen=True, slots=True)
class Loss:
    """A node on which the task fits after the eviction of `victims`, which are sorted with the most important first."""

    row: int
    victims: Sequence[Candidate]

    def rank(self, now: float) -> tuple[float, ...]:
        """Return the sort key; the smallest is best.

        The key consists of the highest priority, the sum of priorities, the number of victims, the start of the most important
        victims, and the row.
        """
        priorities = [task.facts.pod.spec.priority or 0 for _, task in self.victims]
        highest = [task for (_, task), each in zip(self.victims, priorities, strict=True) if each == max(priorities)]
        started = [task.facts.started or now for task in highest]
        return (priorities[0], sum(each + _SHIFT for each in priorities), len(priorities), -min(started), self.row)


@dataclass(frozen=True, slots=True)
class DryRun:
    """The settings of dry runs. Nodes are tried until enough of them can be used.

    The number is `percentage` of the nodes, at least `least` and at most `most`. `sees_trials`: whether affinity is evaluated
    without the victims.
    """

    session: Session
    percentage: int = 10
    least: int = 1
    most: int = 100
    sees_trials: bool = True

    @classmethod
    def of(cls, session: Session, arguments: Arguments) -> DryRun:
        """Return the settings from the arguments of preempt.

        Affinity is evaluated without the victims only if the plugin predicates has the flag enablePreemptable or
        enabledAllocatable.
        """
        entries = (entry for tier in session.configuration.tiers for entry in tier if entry.name == "predicates")
        return cls(
            session,
            arguments.integer("minCandidateNodesPercentage", 10),
            arguments.integer("minCandidateNodesAbsolute", 1),
            arguments.integer("maxCandidateNodesAbsolute", 100),
            any(entry.enabled & {"enablePreemptable", "enabledAllocatable"} for entry in entries),
        )

    def best(self, search: VictimSearch, wish: Wish) -> Loss | None:
        """Return the node with the smallest loss for a task; None if no eviction helps."""
        session = self.session
        nodes = resolvable(session, wish.job, wish.task, wish.plan)
        count = int(nodes.sum())
        most = max(1, self.least, min(self.most, count * self.percentage // 100))
        trial = _Trial(session, search, wish, None if self.sees_trials else session.coupled_refusals(wish.task, wish.plan) or ())
        rows = np.flatnonzero(nodes & search.nodes(wish)).tolist()
        among = search.victims(wish, rows, would_fit(session, wish.plan), may_evict_none=False)
        tried = (trial.loss(row, victims) for row, victims in among)
        found = islice((loss for loss in tried if loss is not None), most)
        return min(found, key=lambda loss: loss.rank(session.ports.now), default=None)


@dataclass(frozen=True, slots=True)
class _Trial:
    """The dry run for one task. `before`: refusals that do not depend on the victims; None: they are evaluated for each trial."""

    session: Session
    search: VictimSearch
    wish: Wish
    before: Sequence[Refusal] | None

    def loss(self, row: int, victims: Sequence[Candidate]) -> Loss | None:
        """Return the pods that must be evicted on node `row`; None if evictions do not help or are not needed."""
        potential: list[Candidate] = []
        for victim in first_to_go(self.session, victims, self.session.queues[self.wish.job.facts.queue]):
            potential.append(victim)
            if self._fits_without(row, potential):
                kept = needed(potential, partial(self._fits_without, row))  # spare the most important victims first
                return Loss(row, kept[::-1]) if kept else None
        return None

    def _fits_without(self, row: int, gone: Sequence[Candidate]) -> bool:
        session, task, plan = self.session, self.wish.task, self.wish.plan
        statement = session.statement()
        self.search.evict(statement, gone)
        is_allowed = bool(session.allocatable(session.queues[self.wish.job.facts.queue], plan, 1, task))
        is_room = bool(plan.room(np.array([row], dtype=np.intp), future=True)[0])
        refusals = session.coupled_refusals(task, plan) or () if self.before is None else self.before
        is_refused = any(refusal.nodes[row] for refusal in refusals)
        statement.discard()
        return is_allowed and is_room and not is_refused
