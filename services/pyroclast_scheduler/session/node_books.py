"""Node books: records of what pods use on each node besides resources, such as cards or CPUs. Several plugins share this code.

A plugin defines the state of a node and the choice for a pod. A result for a pod is used again for all pods of its kind until the
version of the node changes. After a placement, only one node is examined again.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Hashable
from contextlib import suppress
from dataclasses import dataclass
from typing import Final, Generic, TypeVar

import numpy as np

from pyroclast_scheduler.model.dimensions import Ints
from pyroclast_scheduler.model.fit_errors import Code, Refusal
from pyroclast_scheduler.model.node_columns import Bools, Floats, Rows
from pyroclast_scheduler.model.tasks import TaskFacts, TaskStatus
from pyroclast_scheduler.session.plugin_session import PluginSession
from pyroclast_scheduler.session.statement import Move

S = TypeVar("S")
C = TypeVar("C")
_FITS: Final = 0  # stands for the number of a reason
_MOST_KINDS: Final = 64  # kinds of pods whose results are kept, the most recently used ones; each costs 24 bytes per node


class Refused(Exception):
    """Too little is free on a node of what a node book records; `code` UNSCHEDULABLE if evictions could change that."""

    def __init__(self, reason: str, code: Code = Code.UNSCHEDULABLE) -> None:
        super().__init__(reason)
        self.code = code


def final_if(is_final: bool) -> Code:
    """Return the code of a refusal that evictions cannot resolve (`is_final`) or can resolve."""
    return Code.UNRESOLVABLE if is_final else Code.UNSCHEDULABLE


@dataclass(slots=True)
class _Results:
    """The results for one kind of pods, by node: the version of the node, the number of the reason, the score."""

    versions: Ints
    reasons: Rows
    scores: Floats


class NodeBook(ABC, Generic[S, C]):
    """What pods use of one type of device on each node: `S` is the type of its state, `C` that of the claim of a pod."""

    def __init__(self, session: PluginSession) -> None:
        self.session = session
        self._states: dict[int, S] = {}
        self._given: dict[str, C] = {}
        self._versions: Ints = np.zeros(len(session.names), dtype=np.int64)
        self._results: dict[Hashable, _Results] = {}
        self._reasons: dict[tuple[str, Code], int] = {("", Code.UNSCHEDULABLE): _FITS}

    # -- implemented by plugins ------------------------------------------------------------------------------------------

    @abstractmethod
    def wants(self, task: TaskFacts) -> bool:
        """Whether a pod requests devices of the type that this node book records."""

    @abstractmethod
    def kind(self, task: TaskFacts) -> Hashable:
        """Return a key that is equal for pods for which every node gives the same result."""

    @abstractmethod
    def state(self, row: int) -> S:
        """Return the state of node `row` without the claims of its pods that `held` returns.

        Raises:
            Refused: the node has no devices of this type.
        """

    def held(self, task: TaskFacts) -> C | None:
        """Return the claim of a pod on a node, which an eviction of the pod frees; None if `state` already contains the claim."""
        del task
        return None

    @abstractmethod
    def choose(self, state: S, task: TaskFacts) -> C | None:
        """Return the claim that the pod would get on a node; None if the pod needs nothing on this node.

        Raises:
            Refused: the node has too few free devices.
        """

    def examine(self, state: S, task: TaskFacts) -> float:
        """Return the score of the node for the pod.

        Raises:
            Refused: the node has too few free devices.
        """
        self.choose(state, task)
        return 0.0

    @abstractmethod
    def take(self, state: S, task: TaskFacts, claim: C) -> None:
        """Add `claim` of the pod to the state of a node."""

    @abstractmethod
    def undo(self, state: S, task: TaskFacts, claim: C) -> None:
        """Remove `claim` of the pod from the state of a node."""

    # -- used by plugins -------------------------------------------------------------------------------------------------

    def of(self, row: int) -> S | None:
        """Return the present state of node `row`; None if the node has no devices of this type."""
        with suppress(Refused):
            return self._of(row)
        return None

    def claim(self, uid: str) -> C | None:
        """Return the claim of pod `uid`, None if the pod has none."""
        return self._given.get(uid)

    def refusals(self, task: TaskFacts, nodes: Bools) -> list[Refusal]:
        """Return the refusals of `nodes` for the pod, in the order in which their reasons first occur."""
        results = self._examined(task, nodes)
        rows = np.flatnonzero(nodes & (results.reasons != _FITS))
        if not len(rows):
            return []
        numbers, first, which = np.unique(results.reasons[rows], return_index=True, return_inverse=True)
        reasons, refusals = list(self._reasons), []
        for at in np.argsort(first).tolist():
            mask = np.zeros(len(nodes), dtype=np.bool_)
            mask[rows[which == at]] = True
            refusals.append(Refusal(mask, *reasons[numbers[at]]))
        return refusals

    def scores(self, task: TaskFacts, candidates: Bools) -> Floats:
        """Return the score of each candidate for the pod, 0 for infeasible nodes."""
        results = self._examined(task, candidates)
        scores: Floats = np.where(candidates & (results.reasons == _FITS), results.scores, 0.0)
        return scores

    def moved(self, move: Move, sign: int) -> None:
        """Add claims when pods are placed, and remove claims when pods are evicted, see `Extensions.moved`."""
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
        """Discard the results for all nodes, since a claim on one node changed other nodes too."""
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
        """Return the claim for a pod; None if there is none, also for a pipelined pod whose devices are still in use."""
        with suppress(Refused):
            return self.choose(state, task)
        return None

    def _examined(self, task: TaskFacts, nodes: Bools) -> _Results:
        """Return results that are current for `nodes`."""
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
