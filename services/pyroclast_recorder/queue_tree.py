"""The ancestors of queues over time. Pure."""

from __future__ import annotations

from bisect import bisect_right
from collections import defaultdict
from collections.abc import Iterable
from typing import Final

from pyroclast_recorder.database.tables import Row

ROOT: Final = "root"
SEPARATOR: Final = "/"
"""Between the names of ancestors. No name of a queue has it."""


class QueueTree:
    """The ancestors of each queue at each time. `rows`: the rows of `queue_parents`."""

    def __init__(self, rows: Iterable[Row] = ()) -> None:
        self._parents: dict[str, list[tuple[int, str]]] = defaultdict(list)
        for row in sorted(rows, key=lambda row: row["at"]):
            self._parents[row["uid"]].append((row["at"], row["parent"] or ROOT))
        self.changes = sorted({at for of_queue in self._parents.values() for at, _ in of_queue[1:]})
        self._known: dict[tuple[str, int], str] = {}

    def ancestors(self, queue: str, at: int) -> str:
        """Return the names of the ancestors of a queue at a time, from the root on; empty when they are not known.

        The first known parent of a queue is valid from the beginning. In a cycle, each queue is named once.
        """
        slot = queue, bisect_right(self.changes, at)
        if slot not in self._known:
            names: list[str] = []
            parent = self._parent(queue, at)
            while parent is not None and parent != queue and parent not in names:
                names.append(parent)
                parent = None if parent == ROOT else self._parent(parent, at)
            self._known[slot] = SEPARATOR.join(reversed(names))
        return self._known[slot]

    def _parent(self, queue: str, at: int) -> str | None:
        of_queue = self._parents.get(queue)
        if of_queue is None or queue == ROOT:
            return None
        return of_queue[max(0, bisect_right(of_queue, at, key=lambda each: each[0]) - 1)][1]


def is_below(ancestors: str, queue: str) -> bool:
    """Whether `queue` is one of the ancestors that `QueueTree.ancestors` returned."""
    return queue in ancestors.split(SEPARATOR)
