"""Books per node: what plugins share that keep account of what pods have on a node beside resources, such as cards or CPUs.

A plugin says what is on a node and who gets which part of it. What was found out for a pod holds for all of its kind until the
node's version changes: a placement evaluates one node anew, not all.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Hashable
from dataclasses import dataclass
from typing import Final, Generic, TypeVar

import numpy as np

from pyroclast_scheduler.model.dimensions import Ints
from pyroclast_scheduler.model.node_columns import Bools, Floats, Rows
from pyroclast_scheduler.model.reasons import Code, Refusal
from pyroclast_scheduler.model.statuses import TaskStatus
from pyroclast_scheduler.model.tasks import TaskFacts
from pyroclast_scheduler.session.session import Session
from pyroclast_scheduler.session.statement import Move

__all__ = ["NodeBook", "Refused", "final_if"]

S = TypeVar("S")
C = TypeVar("C")
_FITS: Final = 0  # instead of the number of a reason
_MOST_KINDS: Final = 64  # kinds of pods whose results are kept, 24 bytes a node each: those asked for last


class Refused(Exception):
    """Why a node has no place for a pod in this book. `code`: UNSCHEDULABLE where it would have if other pods went."""

    def __init__(self, reason: str, code: Code = Code.UNSCHEDULABLE) -> None:
        super().__init__(reason)
        self.code = code


def final_if(is_final: bool) -> Code:
    """The code of a refusal that stands, or not, whoever goes."""
    return Code.UNRESOLVABLE if is_final else Code.UNSCHEDULABLE


@dataclass(slots=True)
class _Results:
    """What was found out for one kind of pod, by node: at which version, the number of the reason, the score."""

    versions: Ints
    reasons: Rows
    scores: Floats


class NodeBook(ABC, Generic[S, C]):
    """The account of one thing on all nodes in a session. `S`: what a node has, and who uses it; `C`: what a pod gets of it."""

    def __init__(self, session: Session) -> None:
        self.session = session
        self._states: dict[int, S] = {}
        self._given: dict[str, C] = {}
        self._versions: Ints = np.zeros(len(session.names), dtype=np.int64)
        self._results: dict[Hashable, _Results] = {}
        self._reasons: dict[tuple[str, Code], int] = {("", Code.UNSCHEDULABLE): _FITS}

    # -- what a plugin says ----------------------------------------------------------------------------------------------

    @abstractmethod
    def wants(self, task: TaskFacts) -> bool:
        """Whether a pod needs any of it."""

    @abstractmethod
    def kind(self, task: TaskFacts) -> Hashable:
        """What pods have in common that get the same on each node."""

    @abstractmethod
    def state(self, row: int) -> S:
        """What node `row` has, before its pods are given what they `held`.

        Raises:
            Refused: it has none of it.
        """

    def held(self, task: TaskFacts) -> C | None:
        """What a pod on a node has, and gives back when it is evicted; None where that is in `state` and stays taken."""
        del task
        return None

    @abstractmethod
    def choose(self, state: S, task: TaskFacts) -> C | None:
        """What the pod gets on a node; None if it needs nothing there.

        Raises:
            Refused: there is not enough.
        """

    def examine(self, state: S, task: TaskFacts) -> float:
        """How good the node is for the pod.

        Raises:
            Refused: there is not enough.
        """
        self.choose(state, task)
        return 0.0

    @abstractmethod
    def take(self, state: S, task: TaskFacts, claim: C) -> None:
        """The pod has `claim` from now on."""

    @abstractmethod
    def undo(self, state: S, task: TaskFacts, claim: C) -> None:
        """Take `claim` back."""

    # -- what a plugin asks ----------------------------------------------------------------------------------------------

    def of(self, row: int) -> S | None:
        """The state of node `row` as it is now; None if it has none."""
        try:
            return self._of(row)
        except Refused:
            return None

    def claim(self, uid: str) -> C | None:
        """What pod `uid` has."""
        return self._given.get(uid)

    def refusals(self, task: TaskFacts, nodes: Bools) -> list[Refusal]:
        """Those of `nodes` without a place for the pod, by reason, in the order in which the reasons first occur."""
        results = self._examined(task, nodes)
        rows = np.flatnonzero(nodes & (results.reasons != _FITS))
        if not len(rows):
            return []
        numbers, first, which = np.unique(results.reasons[rows], return_index=True, return_inverse=True)
        known = list(self._reasons)
        found: list[Refusal] = []
        for at in np.argsort(first).tolist():
            mask = np.zeros(len(nodes), dtype=np.bool_)
            mask[rows[which == at]] = True
            found.append(Refusal(mask, *known[numbers[at]]))
        return found

    def scores(self, task: TaskFacts, candidates: Bools) -> Floats:
        """How good each candidate is for the pod, 0 where it has no place."""
        results = self._examined(task, candidates)
        scores: Floats = np.where(candidates & (results.reasons == _FITS), results.scores, 0.0)
        return scores

    def moved(self, move: Move, sign: int) -> None:
        """Give claims with a place and take them back, see `Extensions.moved`."""
        is_eviction = move.status is TaskStatus.RELEASING
        for task, row in zip(move.tasks, move.rows.tolist(), strict=True):
            facts = task.facts
            if not self.wants(facts):
                continue
            state = self.of(row)
            if state is None:
                continue
            claim = self._chosen(state, facts) if sign > 0 and not is_eviction else self._given.get(facts.uid)
            if claim is None:
                continue
            self._versions[row] += 1
            if (sign > 0) != is_eviction:
                self._given[facts.uid] = claim
                self.take(state, facts, claim)
                continue
            self.undo(state, facts, claim)
            if not is_eviction:
                del self._given[facts.uid]

    def changed_everywhere(self) -> None:
        """What was taken or given back counts on other nodes too."""
        self._versions += 1

    def _of(self, row: int) -> S:
        state = self._states.get(row)
        if state is None:
            state = self._states[row] = self.state(row)
            for task in self.session.snapshot.residents[row]:
                claim = self.held(task) if self.wants(task) else None
                if claim is not None:
                    self._given[task.uid] = claim
                    self.take(state, task, claim)
        return state

    def _chosen(self, state: S, task: TaskFacts) -> C | None:
        """What the pod gets with its place; None also where that is promised for when others have gone."""
        try:
            return self.choose(state, task)
        except Refused:
            return None

    def _examined(self, task: TaskFacts, nodes: Bools) -> _Results:
        """Results that are current for `nodes`."""
        kind, count = self.kind(task), len(self._versions)
        results = self._results.pop(kind, None)
        if results is None:
            results = _Results(np.full(count, -1, dtype=np.int64), np.zeros(count, dtype=np.intp), np.zeros(count))
        self._results[kind] = results
        if len(self._results) > _MOST_KINDS:
            del self._results[next(iter(self._results))]
        rows = np.flatnonzero(nodes & (results.versions != self._versions))
        for row in rows.tolist():
            try:
                results.scores[row] = self.examine(self._of(row), task)
                results.reasons[row] = _FITS
            except Refused as refused:
                results.reasons[row] = self._reasons.setdefault((str(refused), refused.code), len(self._reasons))
        results.versions[rows] = self._versions[rows]
        return results
