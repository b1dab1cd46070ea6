"""Company: who is where, as far as pods care about each other.

Counts per node, made when first asked for and kept current by moves.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import msgspec
import numpy as np

from pyroclast_scheduler.model.dimensions import Ints
from pyroclast_scheduler.model.selectors import matches
from pyroclast_scheduler.model.tasks import TaskFacts

__all__ = ["Company", "Term", "own_terms"]

_ENCODER = msgspec.json.Encoder(order="deterministic")


@dataclass(frozen=True, slots=True)
class Term:
    """Pods of some namespaces (None: all) that match a selector, by domains of label `key`. `id` tells whom it means."""

    key: str
    selector: Mapping[str, Any] | None
    namespaces: frozenset[str] | None
    id: bytes
    weight: int = 0

    def takes_in(self, task: TaskFacts) -> bool:
        """Whether `task` is one of those pods."""
        if self.namespaces is not None and task.namespace not in self.namespaces:
            return False
        return matches(self.selector, task.pod.metadata.labels)


def own_terms(task: TaskFacts, raw: Iterable[Mapping[str, Any]]) -> list[Term]:
    """The (anti-)affinity terms of `task`; a preferred term has its weight around it."""
    found = []
    for each in raw:
        weight, term = (int(each.get("weight") or 0), each["podAffinityTerm"]) if "podAffinityTerm" in each else (0, each)
        selector = _with_label_keys(term, task)
        everywhere = term.get("namespaceSelector") == {}
        namespaces = None if everywhere else frozenset(term.get("namespaces") or (task.namespace,))
        identity = _ENCODER.encode((selector, sorted(namespaces) if namespaces is not None else None))
        found.append(Term(term.get("topologyKey", ""), selector, namespaces, identity, weight))
    return found


class Company:
    """Counts of pods per node, by term: who matches it, and who holds it."""

    def __init__(self, placed: Iterable[tuple[TaskFacts, int]], nodes: int) -> None:
        self._placed = list(placed)
        self._nodes = nodes
        self._moves: list[tuple[TaskFacts, int, int]] = []
        self._matching: dict[tuple[bytes, bool], tuple[Callable[[TaskFacts], bool], Ints]] = {}
        self._holders: dict[str, dict[tuple[bytes, str, int], tuple[Term, Ints]]] = {}

    def moved(self, tasks: Sequence[TaskFacts], rows: Sequence[int], sign: int) -> None:
        """Pods came to nodes (1) or left them (−1)."""
        for task, row in zip(tasks, rows, strict=True):
            self._moves.append((task, row, sign))
            for test, counts in self._matching.values():
                if test(task):
                    counts[row] += sign
            for kind, holders in self._holders.items():
                self._hold(holders, kind, task, row, sign)

    def matching(self, term: Term, *, but_leaving: bool = False) -> Ints:
        """How many pods on each node match `term`, those that are being deleted left out on demand. Not to be changed."""
        slot = (term.id, but_leaving)
        found = self._matching.get(slot)
        if found is None:

            def test(task: TaskFacts) -> bool:
                return term.takes_in(task) and not (but_leaving and task.pod.metadata.is_terminating)

            found = self._matching[slot] = test, self._count(test)
        return found[1]

    def matching_all(self, terms: Sequence[Term]) -> Ints:
        """How many pods on each node match all of `terms`. Not to be changed."""
        slot = (b"&".join(term.id for term in terms), False)
        found = self._matching.get(slot)
        if found is None:

            def test(task: TaskFacts) -> bool:
                return all(term.takes_in(task) for term in terms)

            found = self._matching[slot] = test, self._count(test)
        return found[1]

    def holders(self, kind: str) -> Iterable[tuple[Term, Ints]]:
        """The terms that pods on nodes hold, and how many on each node do.

        `kind`: `podAntiAffinity` for required ones, `+podAffinity` and `+podAntiAffinity` for preferred ones.
        """
        holders = self._holders.get(kind)
        if holders is None:
            holders = self._holders[kind] = {}
            for task, row in self._placed:
                self._hold(holders, kind, task, row, 1)
            for task, row, sign in self._moves:
                self._hold(holders, kind, task, row, sign)
        return holders.values()

    def _count(self, test: Callable[[TaskFacts], bool]) -> Ints:
        counts: Ints = np.zeros(self._nodes, dtype=np.int64)
        for task, row in self._placed:
            if test(task):
                counts[row] += 1
        for task, row, sign in self._moves:
            if test(task):
                counts[row] += sign
        return counts

    def _hold(
        self, holders: dict[tuple[bytes, str, int], tuple[Term, Ints]], kind: str, task: TaskFacts, row: int, sign: int
    ) -> None:
        shape = task.shape
        raw = shape.preferred(kind[1:]) if kind.startswith("+") else shape.required(kind)
        for term in own_terms(task, raw) if raw else ():
            slot = (term.id, term.key, term.weight)
            if slot not in holders:
                holders[slot] = (term, np.zeros(self._nodes, dtype=np.int64))
            holders[slot][1][row] += sign


def _with_label_keys(term: Mapping[str, Any], task: TaskFacts) -> Mapping[str, Any] | None:
    """The selector with what `matchLabelKeys` and `mismatchLabelKeys` take from the pod's own labels."""
    selector = term.get("labelSelector")
    labels = task.pod.metadata.labels
    extra = [
        {"key": key, "operator": operator, "values": [labels[key]]}
        for name, operator in (("matchLabelKeys", "In"), ("mismatchLabelKeys", "NotIn"))
        for key in term.get(name) or ()
        if key in labels
    ]
    if selector is None or not extra:
        return selector
    return {**selector, "matchExpressions": [*(selector.get("matchExpressions") or ()), *extra]}
