"""The (anti-)affinity terms of pods: which pods each term selects, and how many of them each node has.

Also the terms of pods on nodes that concern other pods.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import product
from typing import Any, Final

import msgspec
import numpy as np

from pyroclast.resources.selectors import is_empty, matches, selected_labels
from pyroclast_scheduler.model.dimensions import Ints
from pyroclast_scheduler.model.pod_columns import LabelIndex, Residents, changed_rows, named_values
from pyroclast_scheduler.model.tasks import TaskFacts

_ENCODER = msgspec.json.Encoder(order="deterministic")


@dataclass(frozen=True, slots=True)
class Term:
    """A term of affinity or anti-affinity.

    Attributes:
        key: the node label whose values divide the nodes into topology domains.
        selector: the label selector of the pods; None selects no pod.
        namespaces: the namespaces of the pods; None for all.
        id: equal for terms that select the same pods.
        weight: the weight of a preferred term, 0 for a required one.
    """

    key: str
    selector: Mapping[str, Any] | None
    namespaces: frozenset[str] | None
    id: bytes
    weight: int = 0

    def takes_in(self, task: TaskFacts) -> bool:
        """Whether the term selects `task`."""
        if self.namespaces is not None and task.namespace not in self.namespaces:
            return False
        return matches(self.selector, task.pod.metadata.labels)

    def may_take_in(self, task: TaskFacts, *, but: Collection[str]) -> bool:
        """Whether the term could select a pod that differs from `task` only in the labels `but`."""
        if self.namespaces is not None and task.namespace not in self.namespaces:
            return False
        labels = task.pod.metadata.labels
        return all(labels.get(key) in values for key, values in named_values(self.selector) if key not in but)


Spaces = Mapping[str, Mapping[str, str]]
"""The labels of namespaces, by name."""


def own_terms(task: TaskFacts, raw: Iterable[Mapping[str, Any]], spaces: Spaces) -> list[Term]:
    """Return the (anti-)affinity terms of `task`. `raw`: the terms in the form of the API. `spaces`: of all namespaces."""
    found = []
    for each in raw:
        is_preferred = "podAffinityTerm" in each
        weight, term = (int(each.get("weight") or 0), each["podAffinityTerm"] or {}) if is_preferred else (0, each)
        selector = _with_label_keys(term, task)
        namespaces = _namespaces(term, task, spaces)
        identity = _ENCODER.encode((selector, sorted(namespaces) if namespaces is not None else None))
        found.append(Term(term.get("topologyKey") or "", selector, namespaces, identity, weight))
    return found


def _namespaces(term: Mapping[str, Any], task: TaskFacts, spaces: Spaces) -> frozenset[str] | None:
    """Return the namespaces of `term`: the named and the selected ones, else that of the pod. None: all namespaces."""
    named, selector = term.get("namespaces") or (), term.get("namespaceSelector")
    if selector is None:
        return frozenset(named or (task.namespace,))
    if is_empty(selector):
        return None
    return frozenset(named) | {name for name, labels in spaces.items() if matches(selector, labels)}


def _with_label_keys(term: Mapping[str, Any], task: TaskFacts) -> Mapping[str, Any] | None:
    """Return the label selector extended by `matchLabelKeys` and `mismatchLabelKeys`, with the values of the pod's own labels."""
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


Slot = tuple[bytes, str, int]
"""The identity of a term: the id of the selected pods, the topology key and the weight."""

Group = tuple[str | None, tuple[str, str] | None]
"""A set of pods: their namespace (None: any) and one label with its value (None: any labels)."""


@dataclass(slots=True)
class Held:
    """A term, and the number of pods with that term on each row that has such pods."""

    term: Term
    rows: dict[int, int] = field(default_factory=dict)
    _array: Ints | None = None

    def add(self, row: int, sign: int) -> None:
        """Count a pod with this term that was placed on a node (1) or left the node (−1)."""
        count = self.rows.get(row, 0) + sign
        if count:
            self.rows[row] = count
        else:
            del self.rows[row]
        self._array = None

    def counts(self, nodes: int) -> Ints:
        """Return the counts as an array over all nodes. The caller must not change the array."""
        if self._array is None or len(self._array) != nodes:
            self._array = np.zeros(nodes, dtype=np.int64)
            self._array[list(self.rows)] = list(self.rows.values())
        return self._array


class HeldTerms:
    """All affinity terms of one type, such as required anti-affinity."""

    def __init__(self) -> None:
        self._by_slot: dict[Slot, Held] = {}
        self._groups: dict[Group, dict[Slot, None]] = {}

    def add(self, term: Term, row: int, sign: int, *, is_change: bool = False) -> None:
        """Count a pod with `term`. `is_change`: counts are differences to earlier ones: a count of 0 is kept."""
        slot = term.id, term.key, term.weight
        held = self._by_slot.get(slot)
        if held is None:
            held = self._by_slot[slot] = Held(term)
            for group in groups_of(term):
                self._groups.setdefault(group, {})[slot] = None
        held.add(row, sign)
        if not held.rows and not is_change:
            del self._by_slot[slot]
            for group in groups_of(term):
                del self._groups[group][slot]
                if not self._groups[group]:
                    del self._groups[group]

    def get(self, slot: Slot) -> Held | None:
        """Return the term of `slot`, None if no pod has that term."""
        return self._by_slot.get(slot)

    def meaning(self, task: TaskFacts) -> Iterator[tuple[Slot, Held]]:
        """Yield the affinity terms of pods on nodes that select `task`."""
        for group in groups_with(task):
            for slot in self._groups.get(group, ()):
                held = self._by_slot[slot]
                if held.term.takes_in(task):
                    yield slot, held

    def selecting_by(self, labels: Collection[str]) -> Iterator[tuple[Slot, Held]]:
        """Return the terms whose selectors use one of `labels`."""
        return (pair for pair in self._by_slot.items() if not selected_labels(pair[1].term.selector).isdisjoint(labels))


def groups_of(term: Term) -> list[Group]:
    """Return disjoint sets of pods that together contain every pod that `term` selects."""
    namespaces = term.namespaces
    namespace = next(iter(namespaces)) if namespaces is not None and len(namespaces) == 1 else None
    for key, values in named_values(term.selector):
        return [(namespace, (key, value)) for value in values]
    return [(namespace, None)]


def groups_with(task: TaskFacts) -> Iterator[Group]:
    """Return the sets of pods that contain `task`."""
    return product((None, task.namespace), (None, *task.pod.metadata.labels.items()))


_Test = Callable[[TaskFacts], bool]
_Slot = tuple[bytes, bool]
_MoveOfPod = tuple[TaskFacts, int, int]  # the pod, the row of its node, and 1 if it was placed there or −1 if it left
_HELD: Final = ("podAntiAffinity", "+podAffinity", "+podAntiAffinity")
_MOST_TERMS: Final = 256  # counts kept from session to session; the least recently used ones are dropped first
_FEW_ROWS: Final = 64  # counts over so few nodes are not stored but calculated each time


@dataclass(slots=True)
class _Counted:
    """The number of matching pods per node, and the `seen` pods from which it was counted."""

    test: _Test
    counts: Ints
    seen: Residents


class TermBook:
    """The counts of pods by affinity term, kept from session to session. Only nodes whose pods changed are counted again."""

    def __init__(self) -> None:
        self.spaces: Spaces = {}
        self._counted: dict[_Slot, _Counted] = {}
        self._index = LabelIndex()
        self._held = {kind: HeldTerms() for kind in _HELD}
        self._seen: Residents = ()

    def use(self, spaces: Spaces) -> None:
        """Use `spaces` as the labels of the namespaces."""
        if spaces != self.spaces:
            self.spaces = spaces
            self._held, self._seen = {kind: HeldTerms() for kind in _HELD}, ()

    def counts(self, slot: _Slot, test: _Test, term: Term, residents: Residents) -> Ints:
        """Return how many residents of each node pass `test`, as an array that belongs to the caller.

        `slot`: the identity of `test`. `term`: a term that selects every pod that passes `test`.
        """
        rows = self._index.rows(term.selector, term.namespaces, residents)
        if rows is not None and len(rows) <= _FEW_ROWS:
            return _counted(test, rows, residents)
        known = self._counted.pop(slot, None)
        if known is None and rows is not None:
            known = _Counted(test, _counted(test, rows, residents), residents)
        elif known is None:
            known = _Counted(test, np.zeros(0, dtype=np.int64), ())
        known.counts = np.pad(known.counts, (0, len(residents) - len(known.counts)))
        for row in changed_rows(known.seen, residents):
            known.counts[row] = sum(map(test, residents[row]))
        known.seen = residents
        self._counted[slot] = known
        if len(self._counted) > _MOST_TERMS:
            del self._counted[next(iter(self._counted))]
        return known.counts.copy()

    def held(self, residents: Residents) -> Mapping[str, HeldTerms]:
        """Return the affinity terms of the pods on nodes, by type of the term. The caller must not change them."""
        for row in changed_rows(self._seen, residents):
            before = self._seen[row] if row < len(self._seen) else ()
            for tasks, sign in ((before, -1), (residents[row], 1)):
                for task in tasks:
                    for kind, term in _held_by(task, self.spaces):
                        self._held[kind].add(term, row, sign)
        self._seen = residents
        return self._held


def _counted(test: _Test, rows: Collection[int], residents: Residents) -> Ints:
    counts: Ints = np.zeros(len(residents), dtype=np.int64)
    for row in rows:
        counts[row] = sum(map(test, residents[row]))
    return counts


class TermCounts:
    """Counts of pods per node in one session: the pods that match a term, and the pods that have the term."""

    def __init__(self, book: TermBook, residents: Residents) -> None:
        self._book = book
        self._residents = residents
        self._nodes = len(residents)
        self._moves: list[_MoveOfPod] = []
        self._moves_by_label: dict[str | None, dict[Group, list[_MoveOfPod]]] = {}
        self._matching: dict[_Slot, tuple[_Test, Ints]] = {}
        self._slots: dict[Group, list[_Slot]] = {}
        self._shifted: dict[str, HeldTerms] | None = None

    def moved(self, tasks: Sequence[TaskFacts], rows: Sequence[int], sign: int) -> None:
        """Count pods that were placed on nodes (`sign` 1) or that left them (−1)."""
        for task, row in zip(tasks, rows, strict=True):
            move = task, row, sign
            self._moves.append(move)
            for group in groups_with(task) if self._slots else ():
                known = self._moves_by_label.get(_key_of(group))
                if known is not None:
                    known.setdefault(group, []).append(move)
                for test, counts in map(self._matching.__getitem__, self._slots.get(group, ())):
                    if test(task):
                        counts[row] += sign
            if self._shifted is not None:
                self._shift(self._shifted, task, row, sign)

    def terms(self, task: TaskFacts, raw: Iterable[Mapping[str, Any]]) -> list[Term]:
        """Return the (anti-)affinity terms of `task`, see `own_terms`."""
        return own_terms(task, raw, self._book.spaces)

    def matching(self, term: Term, *, but_leaving: bool = False) -> Ints:
        """Return how many pods on each node match `term`, without those that are being deleted if `but_leaving`.

        The caller must not change the array.
        """

        def test(task: TaskFacts) -> bool:
            return term.takes_in(task) and not (but_leaving and task.pod.metadata.is_terminating)

        return self._counts((term.id, but_leaving), test, term)

    def matching_all(self, terms: Sequence[Term]) -> Ints:
        """Return how many pods on each node match all of `terms`. The caller must not change the array."""

        def test(task: TaskFacts) -> bool:
            return all(term.takes_in(task) for term in terms)

        named = next((term for term in terms if named_values(term.selector)), terms[0])
        return self._counts((b"&".join(term.id for term in terms), False), test, named)

    def holders(self, kind: str, task: TaskFacts) -> Iterator[tuple[Term, Ints]]:
        """Yield the terms of pods on nodes that select `task`, and how many pods on each node have the term.

        `kind`: `podAntiAffinity` for required terms, `+podAffinity` and `+podAntiAffinity` for preferred ones.
        """
        for slot, held in self._meaning(kind, task):
            yield held.term, self._holding(kind, slot)

    def selecting_by(self, labels: Collection[str]) -> list[Term]:
        """Return the required anti-affinity terms of pods on nodes whose selectors use one of `labels`."""
        kind = "podAntiAffinity"
        known, shifted = self._book.held(self._residents)[kind], self._shifts()[kind]
        found = {slot: held.term for terms in (known, shifted) for slot, held in terms.selecting_by(labels)}
        return [term for slot, term in found.items() if self._holding(kind, slot).any()]

    def signature(self, task: TaskFacts) -> tuple[object, ...]:
        """Return which terms select `task`: its own terms and those of pods on nodes.

        Pods of the same shape and signature have the same feasible nodes and scores.
        """
        shape = task.shape
        own = (*shape.required("podAffinity"), *shape.required("podAntiAffinity"), *shape.spread)
        preferred = (*shape.preferred("podAffinity"), *shape.preferred("podAntiAffinity"))
        held = frozenset((kind, slot) for kind in _HELD for slot, _ in self._meaning(kind, task))
        return (*(term.takes_in(task) for term in (*self.terms(task, own), *self.terms(task, preferred))), held)

    def _meaning(self, kind: str, task: TaskFacts) -> Iterator[tuple[Slot, Held]]:
        known, shifted = self._book.held(self._residents)[kind], self._shifts()[kind]
        yield from known.meaning(task)
        yield from ((slot, held) for slot, held in shifted.meaning(task) if known.get(slot) is None)

    def _holding(self, kind: str, slot: Slot) -> Ints:
        known, shifted = self._book.held(self._residents)[kind].get(slot), self._shifts()[kind].get(slot)
        found = [each.counts(self._nodes) for each in (known, shifted) if each is not None]
        return found[0] if len(found) == 1 else found[0] + found[1]

    def _shifts(self) -> Mapping[str, HeldTerms]:
        """Return the differences that the session made to the terms of pods on nodes."""
        if self._shifted is None:
            self._shifted = {kind: HeldTerms() for kind in _HELD}
            for task, row, sign in self._moves:
                self._shift(self._shifted, task, row, sign)
        return self._shifted

    def _shift(self, shifted: Mapping[str, HeldTerms], task: TaskFacts, row: int, sign: int) -> None:
        for kind, term in _held_by(task, self._book.spaces):
            shifted[kind].add(term, row, sign, is_change=True)

    def _counts(self, slot: _Slot, test: _Test, term: Term) -> Ints:
        found = self._matching.get(slot)
        if found is None:
            counts = self._book.counts(slot, test, term, self._residents)
            for group in groups_of(term):
                for task, row, sign in self._moves_of(group):
                    if test(task):
                        counts[row] += sign
                self._slots.setdefault(group, []).append(slot)
            found = self._matching[slot] = test, counts
        return found[1]

    def _moves_of(self, group: Group) -> Sequence[_MoveOfPod]:
        """Return the placements and removals by this session of pods in `group`."""
        key = _key_of(group)
        known = self._moves_by_label.get(key)
        if known is None:
            known = self._moves_by_label[key] = {}
            for move in self._moves:
                for each in groups_with(move[0]):
                    if _key_of(each) == key:
                        known.setdefault(each, []).append(move)
        return known.get(group, ())


def _key_of(group: Group) -> str | None:
    return None if group[1] is None else group[1][0]


def _held_by(task: TaskFacts, spaces: Spaces) -> Iterator[tuple[str, Term]]:
    """Yield the terms of `task` that concern other pods, each with its kind."""
    shape = task.shape
    if not shape.affinity:
        return
    for kind in _HELD:
        raw = shape.preferred(kind[1:]) if kind.startswith("+") else shape.required(kind)
        for term in own_terms(task, raw, spaces) if raw else ():
            yield kind, term
