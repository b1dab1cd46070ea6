"""The free CPUs of all nodes in one session, what they mean for a pod, and who got which."""

from __future__ import annotations

import json
from typing import Final

import numpy as np

from pyroclast.api import keys, records
from pyroclast_scheduler.model.dimensions import Ints
from pyroclast_scheduler.model.jobs import Job
from pyroclast_scheduler.model.node_columns import Bools, Floats
from pyroclast_scheduler.model.reasons import Code, Refusal
from pyroclast_scheduler.model.statuses import TaskStatus
from pyroclast_scheduler.model.tasks import Task
from pyroclast_scheduler.placement.plans import PlacementPlan
from pyroclast_scheduler.plugins.numa_aware.book import NumaAllocations
from pyroclast_scheduler.plugins.numa_aware.layouts import Inside
from pyroclast_scheduler.plugins.numa_aware.pods import Wanted
from pyroclast_scheduler.plugins.numa_aware.policies import assigned
from pyroclast_scheduler.plugins.numa_aware.table import NO_CPUS
from pyroclast_scheduler.session.outcome import Preparation
from pyroclast_scheduler.session.session import Session
from pyroclast_scheduler.session.statement import Move

__all__ = ["Nodes"]

_MEMORY: Final = "numa-aware"
_HIGHEST: Final = 100
_ADMITTED: Final = -1


class _Answers:
    """What was found out for pods that want the same: by row, whether nothing is free, the container not admitted, the spread."""

    def __init__(self, nodes: int) -> None:
        self.is_known: Bools = np.zeros(nodes, dtype=np.bool_)
        self.is_empty: Bools = np.zeros(nodes, dtype=np.bool_)
        self.failed: Ints = np.full(nodes, _ADMITTED, dtype=np.int64)
        self.spread: Ints = np.zeros(nodes, dtype=np.int64)


class Nodes:
    """Worked out for a node when somebody first asks about it, and again when its CPUs change hands.

    CPUs of pods that are evicted stay theirs: they are free when the node says so.
    """

    def __init__(self, session: Session) -> None:
        self._session = session
        self._book: NumaAllocations = session.ports.memory.setdefault(_MEMORY, NumaAllocations())
        self._table = self._book.table(session.objects(records.Numatopology), session.names)
        session.warnings += [
            f"plugin numa-aware: Numatopology {name}: {why}" for name, why in sorted(self._book.problems.items())
        ]
        self._free: dict[int, int] = {}
        self._claims: dict[str, tuple[int, tuple[int, ...]]] = {}
        self._answers: dict[tuple[int, ...], _Answers] = {}
        self._concerned: dict[str, Bools | None] = {}
        self._closed: dict[str, list[Refusal]] = {}

    def refusals(self, task: Task, plan: PlacementPlan) -> list[Refusal] | None:
        """The nodes that would not take the pod; None where NUMA nodes do not matter to it."""
        want = self._book.wanted(task.facts)
        if want is None or not (want.policy or want.takes_cpus):
            return None
        if want.policy not in self._closed:
            self._closed[want.policy] = self._table.closed(want.policy)
        closed = self._closed[want.policy]
        concerned = self._where(want.policy)
        if concerned is None:
            return [*closed] if want.policy else None
        answers = self._answered(want, concerned & plan.mask)
        found = [Refusal(concerned & answers.is_empty, NO_CPUS, Code.ERROR)] if want.policy else []
        for at in np.unique(answers.failed[concerned]).tolist():
            if at != _ADMITTED:
                reason = f"container {want.names[at]} cannot be assigned by numa"
                found.append(Refusal(concerned & (answers.failed == at), reason, Code.UNRESOLVABLE))
        # never empty: a node that takes one such pod may not take two, so they are placed one at a time
        return [*closed, *found, Refusal(np.zeros_like(concerned), "")]

    def scores(self, job: Job, task: Task, plan: PlacementPlan, candidates: Bools) -> Floats | None:
        """For pods with a NUMA policy up to 100, the more the fewer NUMA nodes a pod would be on; None for others."""
        del job, plan
        want = self._book.wanted(task.facts)
        concerned = None if want is None or not want.policy else self._where(want.policy)
        if want is None or concerned is None:
            return None
        spread = np.where(candidates, self._answered(want, candidates & concerned).spread, 0)
        most = int(spread.max(initial=0))
        return np.asarray(_HIGHEST - _HIGHEST * spread // max(most, 1), dtype=np.float64)

    def moved(self, move: Move, sign: int) -> None:
        """Give CPUs with a place, and take them back."""
        if move.status is TaskStatus.RELEASING:
            return
        for task, row in zip(move.tasks, move.rows.tolist(), strict=True):
            want = self._book.wanted(task.facts)
            if want is None or not want.takes_cpus:
                return  # they are of one shape
            if sign > 0:
                self._give(task, row, want)
            else:
                claim = self._claims.pop(task.uid, None)
                if claim is not None:
                    self._set_free(row, self._free[row] | sum(claim[1]))

    def preparation(self, task: Task, row: int) -> Preparation | None:
        """What the pod is told of the CPUs that were reckoned with: how many on which NUMA node."""
        claim = self._claims.get(task.uid)
        inside = self._table.by_row[row]
        if claim is None or inside is None or claim[0] != row:
            return None
        cpus = sum(claim[1])
        self._book.assign(self._session.names[row], task.uid, cpus)
        room = zip(inside.layout.numa_ids, inside.layout.room(cpus), strict=True)
        decision = {"numa": {str(numa): {"cpu": str(count)} for numa, count in room if count}}
        return Preparation(annotations={keys.TOPOLOGY_DECISION: json.dumps(decision, separators=(",", ":"))})

    def _where(self, policy: str) -> Bools | None:
        """The nodes that must be looked into, None if there are none."""
        if policy not in self._concerned:
            self._concerned[policy] = self._table.concerned(policy)
        return self._concerned[policy]

    def _answered(self, want: Wanted, nodes: Bools) -> _Answers:
        """Answers that are current for `nodes`."""
        answers = self._answers.get(want.counts)
        if answers is None:
            answers = self._answers[want.counts] = _Answers(len(nodes))
        for row in np.flatnonzero(nodes & ~answers.is_known).tolist():
            inside = self._table.by_row[row]
            if inside is not None:
                self._answer(answers, row, inside, want.counts)
        return answers

    def _answer(self, answers: _Answers, row: int, inside: Inside, counts: tuple[int, ...]) -> None:
        free = self._free_on(row, inside)
        failed, answers.spread[row] = self._book.examined(inside, free & ~inside.reserved, counts)
        answers.failed[row] = _ADMITTED if failed is None else failed
        answers.is_empty[row] = not free
        answers.is_known[row] = True

    def _free_on(self, row: int, inside: Inside) -> int:
        """The free CPUs of a node, those among them that are reserved."""
        free = self._free.get(row)
        if free is None:
            session = self._session
            held = self._book.held(session.names[row], inside, session.snapshot.residents[row], session.ports.now)
            free = self._free[row] = inside.free & ~held
        return free

    def _set_free(self, row: int, free: int) -> None:
        self._free[row] = free
        for answers in self._answers.values():
            answers.is_known[row] = False

    def _give(self, task: Task, row: int, want: Wanted) -> None:
        inside = self._table.by_row[row]
        concerned = self._where(want.policy)
        if inside is None or concerned is None or not concerned[row]:
            return
        free = self._free_on(row, inside)
        cpus = assigned(inside.policy, inside.layout, free & ~inside.reserved, want.counts)
        if cpus is not None:
            self._claims[task.uid] = (row, cpus)
            self._set_free(row, free & ~sum(cpus))
