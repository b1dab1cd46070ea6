"""Counts of pods per node by (anti-)affinity term, as far as pods care where others are."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import msgspec
import numpy as np

from pyroclast.resources.selectors import is_empty, matches, selected_labels
from pyroclast_scheduler.model.dimensions import Ints
from pyroclast_scheduler.model.tasks import TaskFacts

__all__ = ["Spaces", "Term", "TermBook", "TermCounts", "own_terms"]

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


Spaces = Mapping[str, Mapping[str, str]]
"""The labels of namespaces, by name."""


def own_terms(task: TaskFacts, raw: Iterable[Mapping[str, Any]], spaces: Spaces) -> list[Term]:
    """The (anti-)affinity terms of `task`; a preferred term has its weight around it. `spaces`: all namespaces."""
    found = []
    for each in raw:
        weight, term = (int(each.get("weight") or 0), each["podAffinityTerm"]) if "podAffinityTerm" in each else (0, each)
        selector = _with_label_keys(term, task)
        namespaces = _namespaces(term, task, spaces)
        identity = _ENCODER.encode((selector, sorted(namespaces) if namespaces is not None else None))
        found.append(Term(term.get("topologyKey", ""), selector, namespaces, identity, weight))
    return found


def _namespaces(term: Mapping[str, Any], task: TaskFacts, spaces: Spaces) -> frozenset[str] | None:
    """The namespaces that `term` speaks of: those it names and those it selects, else the pod's own; None: all."""
    named, selector = term.get("namespaces") or (), term.get("namespaceSelector")
    if selector is None:
        return frozenset(named or (task.namespace,))
    if is_empty(selector):
        return None
    return frozenset(named) | {name for name, labels in spaces.items() if matches(selector, labels)}


_Test = Callable[[TaskFacts], bool]
_Residents = Sequence[Sequence[TaskFacts]]
_HELD: Final = ("podAntiAffinity", "+podAffinity", "+podAntiAffinity")
_MOST_TERMS: Final = 256  # counts kept from session to session; those asked for longest ago go first


@dataclass(slots=True)
class _Counted:
    """Counts by node, as they were when the nodes had these residents."""

    test: _Test
    counts: Ints
    seen: _Residents


class TermBook:
    """Counts that go from session to session: only nodes whose pods changed are counted again."""

    def __init__(self) -> None:
        self.spaces: Spaces = {}
        self._counted: dict[tuple[bytes, bool], _Counted] = {}
        self._holders: dict[int, list[tuple[str, Term]]] = {}
        self._seen: _Residents = ()

    def use(self, spaces: Spaces) -> None:
        """Take these as the labels of namespaces."""
        if spaces != self.spaces:
            self.spaces = spaces
            self._holders, self._seen = {}, ()

    def counts(self, slot: tuple[bytes, bool], test: _Test, residents: _Residents) -> Ints:
        """How many residents of each node pass `test`, which `slot` names; an array of the caller's own."""
        known = self._counted.pop(slot, None) or _Counted(test, np.zeros(0, dtype=np.int64), ())
        known.counts = np.pad(known.counts, (0, len(residents) - len(known.counts)))
        for row in _changed(known.seen, residents):
            known.counts[row] = sum(map(test, residents[row]))
        known.seen = residents
        self._counted[slot] = known
        if len(self._counted) > _MOST_TERMS:
            del self._counted[next(iter(self._counted))]
        return known.counts.copy()

    def holders(self, residents: _Residents) -> Mapping[int, list[tuple[str, Term]]]:
        """By row, the terms that residents hold, each with its kind. Not to be changed."""
        for row in _changed(self._seen, residents):
            held = [pair for task in residents[row] for pair in _held_by(task, self.spaces)]
            if held:
                self._holders[row] = held
            else:
                self._holders.pop(row, None)
        self._seen = residents
        return self._holders


class TermCounts:
    """Counts of pods per node in one session, by term: who matches it, and who holds it."""

    def __init__(self, book: TermBook, residents: _Residents) -> None:
        self._book = book
        self._residents = residents
        self._nodes = len(residents)
        self._moves: list[tuple[TaskFacts, int, int]] = []
        self._matching: dict[tuple[bytes, bool], tuple[_Test, Ints]] = {}
        self._holders: dict[str, dict[tuple[bytes, str, int], tuple[Term, Ints]]] | None = None

    def moved(self, tasks: Sequence[TaskFacts], rows: Sequence[int], sign: int) -> None:
        """Pods came to nodes (1) or left them (−1)."""
        for task, row in zip(tasks, rows, strict=True):
            self._moves.append((task, row, sign))
            for test, counts in self._matching.values():
                if test(task):
                    counts[row] += sign
            if self._holders is not None:
                for kind, term in _held_by(task, self._book.spaces):
                    self._hold(self._holders, kind, term, row, sign)

    def terms(self, task: TaskFacts, raw: Iterable[Mapping[str, Any]]) -> list[Term]:
        """The (anti-)affinity terms of `task`, see `own_terms`."""
        return own_terms(task, raw, self._book.spaces)

    def matching(self, term: Term, *, but_leaving: bool = False) -> Ints:
        """How many pods on each node match `term`, those that are being deleted left out on demand. Not to be changed."""

        def test(task: TaskFacts) -> bool:
            return term.takes_in(task) and not (but_leaving and task.pod.metadata.is_terminating)

        return self._counts((term.id, but_leaving), test)

    def matching_all(self, terms: Sequence[Term]) -> Ints:
        """How many pods on each node match all of `terms`. Not to be changed."""

        def test(task: TaskFacts) -> bool:
            return all(term.takes_in(task) for term in terms)

        return self._counts((b"&".join(term.id for term in terms), False), test)

    def holders(self, kind: str) -> Iterable[tuple[Term, Ints]]:
        """The terms that pods on nodes hold, and how many on each node do.

        `kind`: `podAntiAffinity` for required ones, `+podAffinity` and `+podAntiAffinity` for preferred ones.
        """
        return self._all_holders()[kind].values()

    def is_minded(self, labels: Collection[str]) -> bool:
        """Whether any pod on a node keeps away from others by one of these labels."""
        held = (term for term, counts in self.holders("podAntiAffinity") if counts.any())
        return any(not selected_labels(term.selector).isdisjoint(labels) for term in held)

    def signature(self, task: TaskFacts) -> tuple[bool, ...]:
        """Which terms, its own and those that others hold, take `task` in: pods of one shape and signature are treated alike."""
        shape = task.shape
        own = (*shape.required("podAffinity"), *shape.required("podAntiAffinity"), *shape.spread)
        preferred = (*shape.preferred("podAffinity"), *shape.preferred("podAntiAffinity"))
        held = (term for kind in _HELD for term, _ in self.holders(kind))
        return tuple(term.takes_in(task) for term in (*self.terms(task, own), *self.terms(task, preferred), *held))

    def _counts(self, slot: tuple[bytes, bool], test: _Test) -> Ints:
        found = self._matching.get(slot)
        if found is None:
            counts = self._book.counts(slot, test, self._residents)
            for task, row, sign in self._moves:
                if test(task):
                    counts[row] += sign
            found = self._matching[slot] = test, counts
        return found[1]

    def _all_holders(self) -> dict[str, dict[tuple[bytes, str, int], tuple[Term, Ints]]]:
        if self._holders is None:
            self._holders = {kind: {} for kind in _HELD}
            for row, held in self._book.holders(self._residents).items():
                for kind, term in held:
                    self._hold(self._holders, kind, term, row, 1)
            for task, row, sign in self._moves:
                for kind, term in _held_by(task, self._book.spaces):
                    self._hold(self._holders, kind, term, row, sign)
        return self._holders

    def _hold(
        self, holders: dict[str, dict[tuple[bytes, str, int], tuple[Term, Ints]]], kind: str, term: Term, row: int, sign: int
    ) -> None:
        slot = (term.id, term.key, term.weight)
        known = holders[kind]
        if slot not in known:
            known[slot] = (term, np.zeros(self._nodes, dtype=np.int64))
        known[slot][1][row] += sign


def _changed(seen: _Residents, residents: _Residents) -> list[int]:
    """The rows whose residents are others than before."""
    if seen is residents:
        return []
    known = len(seen)
    return [row for row, tasks in enumerate(residents) if row >= known or tasks is not seen[row]]


def _held_by(task: TaskFacts, spaces: Spaces) -> Iterator[tuple[str, Term]]:
    """The terms of `task` that count for others, each with its kind."""
    shape = task.shape
    if not shape.affinity:
        return
    for kind in _HELD:
        raw = shape.preferred(kind[1:]) if kind.startswith("+") else shape.required(kind)
        for term in own_terms(task, raw, spaces) if raw else ():
            yield kind, term


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
