"""What nodes would give to pods that ask for the same cards: worked out node by node, and again only where users changed."""

from __future__ import annotations

from collections.abc import Callable, Iterable

import numpy as np

from pyroclast_scheduler.model.node_columns import Bools, Floats, Rows
from pyroclast_scheduler.model.reasons import Code, Refusal
from pyroclast_scheduler.plugins.deviceshare.cards import Claim, Refused

__all__ = ["Verdicts"]

_CHOSEN = 0  # instead of the number of a reason: the node has cards


class Verdicts:
    """`choose` gives the cards of a row or raises Refused, `score` tells how good they are. `seen`: how far the log was read."""

    def __init__(self, nodes: int, choose: Callable[[int], Claim], score: Callable[[int, Claim], float]) -> None:
        self.seen = 0
        self._choose = choose
        self._score = score
        self._is_known: Bools = np.zeros(nodes, dtype=np.bool_)
        self._is_scored: Bools = np.zeros(nodes, dtype=np.bool_)
        self._scores: Floats = np.zeros(nodes)
        self._codes: Rows = np.zeros(nodes, dtype=np.intp)
        self._reasons: list[tuple[str, Code]] = [("", Code.UNSCHEDULABLE)]
        self._numbers: dict[tuple[str, Code], int] = {}
        self._claims: dict[int, Claim] = {}

    def forget(self, rows: Iterable[int]) -> None:
        """Who uses the cards of these nodes changed."""
        changed = list(rows)
        self._is_known[changed] = self._is_scored[changed] = False

    def refusals(self, nodes: Bools) -> list[Refusal]:
        """Those of `nodes` without cards, by reason, in the order in which the reasons first occur."""
        self._look(nodes)
        rows = np.flatnonzero(nodes & (self._codes != _CHOSEN))
        codes, first, which = np.unique(self._codes[rows], return_index=True, return_inverse=True)
        found: list[Refusal] = []
        for at in np.argsort(first).tolist():
            mask = np.zeros(len(nodes), dtype=np.bool_)
            mask[rows[which == at]] = True
            found.append(Refusal(mask, *self._reasons[codes[at]]))
        return found

    def scores(self, candidates: Bools) -> Floats:
        """How good the cards of each candidate are, 0 where it has none."""
        self._look(candidates)
        has = candidates & (self._codes == _CHOSEN)
        for row in np.flatnonzero(has & ~self._is_scored).tolist():
            self._scores[row] = self._score(row, self._claims[row])
        self._is_scored |= has
        scores: Floats = np.where(has, self._scores, 0.0)
        return scores

    def _look(self, nodes: Bools) -> None:
        for row in np.flatnonzero(nodes & ~self._is_known).tolist():
            try:
                self._claims[row] = self._choose(row)
            except Refused as refused:
                reason = str(refused), Code.UNRESOLVABLE if refused.is_final else Code.UNSCHEDULABLE
                number = self._numbers.setdefault(reason, len(self._reasons))
                if number == len(self._reasons):
                    self._reasons.append(reason)
                self._codes[row] = number
            else:
                self._codes[row] = _CHOSEN
        self._is_known |= nodes
