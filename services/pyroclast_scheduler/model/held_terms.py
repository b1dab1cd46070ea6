"""The (anti-)affinity terms that pods on nodes hold against others, found by namespace and labels of those whom they mean."""

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

__all__ = ["Group", "Held", "HeldTerms", "Slot", "groups_of", "groups_with"]

Slot = tuple[bytes, str, int]
"""What tells a held term from others: whom it means, its topology key and its weight."""

Group = tuple[str | None, tuple[str, str] | None]
"""Pods by namespace (None: of any) and by one label with its value (None: whatever labels they have)."""


@dataclass(slots=True)
class Held:
    """A term, and how many pods hold it on each row where any does."""

    term: Term
    rows: dict[int, int] = field(default_factory=dict)
    _array: Ints | None = None

    def add(self, row: int, sign: int) -> None:
        """A pod that holds the term came to a node (1) or left it (−1)."""
        count = self.rows.get(row, 0) + sign
        if count:
            self.rows[row] = count
        else:
            del self.rows[row]
        self._array = None

    def counts(self, nodes: int) -> Ints:
        """The same as an array. Not to be changed."""
        if self._array is None or len(self._array) != nodes:
            self._array = np.zeros(nodes, dtype=np.int64)
            self._array[list(self.rows)] = list(self.rows.values())
        return self._array


class HeldTerms:
    """Terms of one kind."""

    def __init__(self) -> None:
        self._by_slot: dict[Slot, Held] = {}
        self._groups: dict[Group, dict[Slot, None]] = {}

    def add(self, term: Term, row: int, sign: int, *, is_change: bool = False) -> None:
        """A pod that holds `term` came to a node (1) or left it (−1). `is_change`: it may have come before this began."""
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
        """The term of that slot."""
        return self._by_slot.get(slot)

    def meaning(self, task: TaskFacts) -> Iterator[tuple[Slot, Held]]:
        """The terms that take `task` in."""
        for group in groups_with(task):
            for slot in self._groups.get(group, ()):
                held = self._by_slot[slot]
                if held.term.takes_in(task):
                    yield slot, held

    def selecting_by(self, labels: Collection[str]) -> Iterator[tuple[Slot, Held]]:
        """The terms that select by one of these labels."""
        return (pair for pair in self._by_slot.items() if not selected_labels(pair[1].term.selector).isdisjoint(labels))


def groups_of(term: Term) -> list[Group]:
    """The groups outside of which no pod is taken in by `term`, none of which overlap."""
    namespaces = term.namespaces
    namespace = next(iter(namespaces)) if namespaces is not None and len(namespaces) == 1 else None
    for key, values in named_values(term.selector):
        return [(namespace, (key, value)) for value in values]
    return [(namespace, None)]


def groups_with(task: TaskFacts) -> Iterator[Group]:
    """The groups in which `task` is."""
    return product((None, task.namespace), (None, *task.pod.metadata.labels.items()))
