"""Jobs that no session could place: remembered with what would change that, so that they cost nothing until it does."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, KeysView, Mapping
from itertools import islice
from typing import TypeVar

import numpy as np

from pyroclast_scheduler.cache.nodes import NodeTable
from pyroclast_scheduler.cache.shifts import Victims
from pyroclast_scheduler.model.columns import Rows
from pyroclast_scheduler.model.shapes import Shape
from pyroclast_scheduler.model.waits import Evicts, Limit, Rest

__all__ = ["Waiting"]

_Group = TypeVar("_Group")
_Value = TypeVar("_Value")
_Wish = tuple[str, frozenset[Shape], bool]  # the queue, the shapes, whether only pods of the queue may go


class Waiting:
    """Keeps rests by key of the job. Those that are found stay until they are discarded, also while others are looked for."""

    def __init__(self) -> None:
        self._rests: dict[str, Rest] = {}
        self._wary: dict[str, None] = {}
        self._limited: dict[str, Limit] = {}
        self._timed: dict[str, None] = {}
        self._by_shape: dict[Shape, dict[str, int]] = {}
        self._by_wish: dict[_Wish, dict[str, None]] = {}

    def __len__(self) -> int:
        return len(self._rests)

    def add(self, rest: Rest) -> None:
        """Remember a job that waits for something."""
        key = rest.facts.key
        self.discard(key)
        self._rests[key] = rest
        if rest.is_timed:
            self._timed[key] = None
        if rest.is_wary:
            if rest.limit is None:
                self._wary[key] = None
            else:
                self._limited[key] = rest.limit
            return
        for shape in rest.shapes:
            self._by_shape.setdefault(shape, {})[key] = rest.lacking
        if rest.shapes and rest.evicts is not Evicts.NOBODY:
            self._by_wish.setdefault(_wish(rest), {})[key] = None

    def discard(self, key: str) -> None:
        """The job is no longer at rest."""
        rest = self._rests.pop(key, None)
        if rest is None:
            return
        self._timed.pop(key, None)
        if rest.is_wary:
            self._wary.pop(key, None)
            self._limited.pop(key, None)
            return
        for shape in rest.shapes:
            _remove(self._by_shape, shape, key)
        if rest.shapes and rest.evicts is not Evicts.NOBODY:
            _remove(self._by_wish, _wish(rest), key)

    @property
    def all(self) -> KeysView[str]:
        """All of them, those first that have waited longest."""
        return self._rests.keys()

    @property
    def timed(self) -> KeysView[str]:
        """Those of which time alone may change what plugins say."""
        return self._timed.keys()

    @property
    def limited(self) -> Mapping[str, Limit]:
        """Those that a session must look at only if what they are kept from is open to them."""
        return self._limited

    def oldest(self, parts: int) -> list[str]:
        """Those that have waited longest, one of so many, at least one where there are any."""
        return list(islice(self._rests, -(-len(self._rests) // parts)))

    def of_queues(self, names: Collection[str]) -> Iterator[str]:
        """Those of these queues."""
        return (key for key, rest in self._rests.items() if rest.facts.queue in names)

    @property
    def has_evicting(self) -> bool:
        """Whether there are any for which others may have to go."""
        return bool(self._by_wish)

    def helped(self, victims: Victims) -> Iterator[Iterable[str]]:
        """Those that others might now go for, in small steps."""
        for (queue, shapes, only_own), keys in list(self._by_wish.items()):
            yield keys if victims.may_help(queue, shapes, only_own=only_own) else ()

    def woken(self, roomier: Collection[int], nodes: NodeTable) -> Iterator[Iterable[str]]:
        """Those that are worth another look now that something changed, in small steps.

        `roomier`: rows that may hold more than when they were last looked at; `nodes`: as they are now.
        """
        yield self._wary
        rows = np.fromiter(roomier, dtype=np.intp, count=len(roomier))
        for shape, keys in list(self._by_shape.items()) if roomier else ():
            yield _fitting(shape, keys, rows, nodes)


def _wish(rest: Rest) -> _Wish:
    return rest.facts.queue, rest.shapes, rest.evicts is Evicts.OWN_QUEUE


def _remove(groups: dict[_Group, dict[str, _Value]], group: _Group, key: str) -> None:
    """Take `key` out of its group, which goes with the last."""
    keys = groups[group]
    del keys[key]
    if not keys:
        del groups[group]


def _fitting(shape: Shape, lacking: Mapping[str, int], rows: Rows, nodes: NodeTable) -> list[str]:
    """Those for which there may be room now: one of these rows has some, and all nodes together have what they lack."""
    if not lacking or not _copies(shape, rows, nodes, at_most=1):
        return []
    most = max(lacking.values())
    everywhere = np.arange(nodes.columns.nodes)
    room = _copies(shape, everywhere, nodes, at_most=most) if min(lacking.values()) > 1 else most
    return [key for key, count in lacking.items() if count <= room]


def _copies(shape: Shape, rows: Rows, nodes: NodeTable, *, at_most: int) -> int:
    """How many more pods of `shape` these nodes could take by their resources alone, once what is releasing is gone."""
    room = np.full(len(rows), at_most, dtype=np.int64)
    for name, amount in shape.request.items():
        free = nodes.columns.free(nodes.dimensions.row(name), rows, future=True)
        if amount:
            np.minimum(room, np.maximum(free, 0) // amount, out=room)
        elif not shape.is_best_effort:
            room[free < 0] = 0
    return min(int(room.sum()), at_most) if at_most > 1 else int(room.any())
