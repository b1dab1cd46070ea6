"""The (anti-)affinity terms of pods on nodes that concern other pods, indexed by namespace and labels of the selected pods."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import dataclass, field
from itertools import product

import numpy as np

from pyroclast.resources.selectors import selected_labels
from pyroclast_scheduler.model.dimensions import Ints
from pyroclast_scheduler.model.label_index import named_values
from pyroclast_scheduler.model.tasks import TaskFacts
from pyroclast_scheduler.model.terms import Term

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
        """Count a pod with `term` that was placed on a node (1) or left the node (−1).

        `is_change`: the counts are differences to earlier counts, so that a count of 0 is kept and a count may be negative.
        """
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
