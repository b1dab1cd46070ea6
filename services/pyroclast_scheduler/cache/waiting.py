"""Jobs that no session could place: remembered with what would change that, so that they cost nothing until it does."""

from __future__ import annotations

from collections.abc import Collection

import numpy as np

from pyroclast_scheduler.cache.shifts import Victims
from pyroclast_scheduler.model.columns import Columns, Rows
from pyroclast_scheduler.model.dimensions import Dimensions
from pyroclast_scheduler.model.shapes import Shape
from pyroclast_scheduler.model.waits import Evicts, Limit, Rest

__all__ = ["Waiting"]


class Waiting:
    """Keeps rests by key of the job."""

    def __init__(self) -> None:
        self._wary: dict[str, None] = {}
        self._limited: dict[str, Limit] = {}
        self._timed: dict[str, None] = {}
        self._by_shape: dict[Shape, dict[str, int]] = {}
        self._shapes_of: dict[str, frozenset[Shape]] = {}
        self._evicting: dict[str, Rest] = {}

    def __len__(self) -> int:
        return len(self._wary) + len(self._limited) + len(self._shapes_of)

    def add(self, rest: Rest) -> None:
        """Remember a job that waits for something."""
        key = rest.facts.key
        self.discard(key)
        if rest.is_wary and rest.limit is not None:
            self._limited[key] = rest.limit
        elif rest.is_wary:
            self._wary[key] = None
        elif rest.shapes:
            self._shapes_of[key] = rest.shapes
            for shape in rest.shapes:
                self._by_shape.setdefault(shape, {})[key] = rest.lacking
            if rest.evicts is not Evicts.NOBODY:
                self._evicting[key] = rest
        if rest.is_timed:
            self._timed[key] = None

    def discard(self, key: str) -> None:
        """The job is no longer at rest."""
        self._wary.pop(key, None)
        self._limited.pop(key, None)
        self._timed.pop(key, None)
        self._evicting.pop(key, None)
        for shape in self._shapes_of.pop(key, ()):
            keys = self._by_shape[shape]
            keys.pop(key, None)
            if not keys:
                del self._by_shape[shape]

    @property
    def timed(self) -> list[str]:
        """Those of which time alone may change what plugins say. They are not taken out."""
        return list(self._timed)

    def oldest(self, parts: int) -> list[str]:
        """Those that have waited longest, one of so many, at least one where there are any. They are not taken out."""
        listed = [*self._wary, *self._limited, *self._shapes_of]
        return listed[: -(-len(listed) // parts)]

    def all(self) -> set[str]:
        """Take out all of them."""
        found = self._wary.keys() | self._limited.keys() | self._shapes_of.keys()
        self._wary, self._limited, self._timed, self._by_shape, self._shapes_of, self._evicting = {}, {}, {}, {}, {}, {}
        return found

    @property
    def limited(self) -> dict[str, Limit]:
        """Those that the next session must look at only if what they are kept from is open to them. They are not taken out."""
        return self._limited.copy()

    @property
    def has_evicting(self) -> bool:
        """Whether there are any for which others may have to go."""
        return bool(self._evicting)

    def helped(self, victims: Victims) -> set[str]:
        """Take out those that others might now go for."""
        answers: dict[tuple[str, frozenset[Shape], bool], bool] = {}
        found: set[str] = set()
        for key, rest in self._evicting.items():
            wish = rest.facts.queue, rest.shapes, rest.evicts is Evicts.OWN_QUEUE
            if wish not in answers:
                answers[wish] = victims.may_help(wish[0], wish[1], only_own=wish[2])
            if answers[wish]:
                found.add(key)
        for key in found:
            self.discard(key)
        return found

    def woken(self, *, roomier: Collection[int], columns: Columns, dimensions: Dimensions) -> set[str]:
        """Take out those that are worth another look now that something changed.

        Args:
            roomier: rows that may hold more than when they were last looked at.
            columns: of all nodes, as they are now.
            dimensions: of the columns.
        """
        found = set(self._wary)
        if roomier and self._by_shape:
            rows = np.fromiter(roomier, dtype=np.intp, count=len(roomier))
            everywhere = np.arange(columns.nodes)
            for shape, keys in self._by_shape.items():
                if not _copies(shape, rows, columns, dimensions, at_most=1):
                    continue
                most = max(keys.values())
                room = _copies(shape, everywhere, columns, dimensions, at_most=most) if min(keys.values()) > 1 else most
                found.update(key for key, lacking in keys.items() if lacking <= room)
        for key in found:
            self.discard(key)
        return found


def _copies(shape: Shape, rows: Rows, columns: Columns, dimensions: Dimensions, *, at_most: int) -> int:
    """How many more pods of `shape` these nodes could take by their resources alone, once what is releasing is gone."""
    room = np.full(len(rows), at_most, dtype=np.int64)
    for name, amount in shape.request.items():
        dimension = dimensions.row(name)
        free = columns.free(dimension, rows, future=True)
        if amount:
            np.minimum(room, np.maximum(free, 0) // amount, out=room)
        elif not shape.is_best_effort:
            room[free < 0] = 0
    return min(int(room.sum()), at_most) if at_most > 1 else int(room.any())
