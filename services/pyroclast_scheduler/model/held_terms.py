"""The (anti-)affinity terms that pods on nodes hold against others, found by the labels of those whom they mean."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np

from pyroclast.resources.selectors import selected_labels
from pyroclast_scheduler.model.dimensions import Ints
from pyroclast_scheduler.model.label_index import named_values
from pyroclast_scheduler.model.tasks import TaskFacts

if TYPE_CHECKING:
    from pyroclast_scheduler.model.terms import Term

__all__ = ["Held", "HeldTerms", "Slot"]

Slot = tuple[bytes, str, int]
"""What tells a held term from others: whom it means, its topology key and its weight."""


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
        self._by_value: dict[tuple[str, str], dict[Slot, None]] = {}
        self._others: dict[Slot, None] = {}  # which take in pods whatever values their labels have

    def add(self, term: Term, row: int, sign: int, *, is_change: bool = False) -> None:
        """A pod that holds `term` came to a node (1) or left it (−1). `is_change`: it may have come before this began."""
        slot = term.id, term.key, term.weight
        held = self._by_slot.get(slot)
        if held is None:
            held = self._by_slot[slot] = Held(term)
            for group in self._groups(slot, term):
                group[slot] = None
        held.add(row, sign)
        if not held.rows and not is_change:
            self._forget(slot, term)

    def get(self, slot: Slot) -> Held | None:
        """The term of that slot."""
        return self._by_slot.get(slot)

    def meaning(self, task: TaskFacts) -> Iterator[tuple[Slot, Held]]:
        """The terms that take `task` in."""
        groups = (self._by_value.get(pair, {}) for pair in task.pod.metadata.labels.items())
        for slots in (self._others, *groups):
            for slot in slots:
                held = self._by_slot[slot]
                if held.term.takes_in(task):
                    yield slot, held

    def selecting_by(self, labels: Collection[str]) -> Iterator[tuple[Slot, Held]]:
        """The terms that select by one of these labels."""
        return (pair for pair in self._by_slot.items() if not selected_labels(pair[1].term.selector).isdisjoint(labels))

    def _groups(self, slot: Slot, term: Term) -> list[dict[Slot, None]]:
        """Where a term is found: under each value of one label that it names, else among those that every pod is asked about."""
        del slot
        for key, values in named_values(term.selector):
            return [self._by_value.setdefault((key, value), {}) for value in values]
        return [self._others]

    def _forget(self, slot: Slot, term: Term) -> None:
        del self._by_slot[slot]
        self._others.pop(slot, None)
        for key, values in named_values(term.selector)[:1]:
            for pair in ((key, value) for value in values):
                del self._by_value[pair][slot]
                if not self._by_value[pair]:
                    del self._by_value[pair]
