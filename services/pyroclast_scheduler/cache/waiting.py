"""Jobs that no session could place: remembered with what would change that, so that they cost nothing until it does."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, KeysView, Mapping, Sequence
from itertools import islice
from typing import TypeAlias, TypeVar

import numpy as np

from pyroclast_scheduler.cache.nodes import NodeTable
from pyroclast_scheduler.cache.victim_changes import Victims
from pyroclast_scheduler.cache.wait_queue import Line
from pyroclast_scheduler.model.job_facts import JobFacts
from pyroclast_scheduler.model.node_columns import Rows
from pyroclast_scheduler.model.retry_conditions import Evicts, Rest
from pyroclast_scheduler.model.shapes import Shape

__all__ = ["WaitingJobs", "Who"]

Who: TypeAlias = "str | bytes"
"""A job by its key, or all that rest of one kind."""

_Group = TypeVar("_Group")
_Value = TypeVar("_Value")
_Wish = tuple[str, frozenset[Shape], bool]  # the queue, the shapes, whether only pods of the queue may go


class WaitingJobs:
    """Keeps rests by key of the job. Those that are found stay until they are discarded, also while others are looked for.

    What was last found out of one holds for all of its kind.
    """

    def __init__(self) -> None:
        self._rests: dict[str, Rest] = {}
        self._lines: dict[bytes, Line] = {}
        self._said: dict[Who, Rest] = {}
        self._wary: dict[Who, None] = {}
        self._period = 0
        self._due: dict[int, dict[Who, None]] = {}
        self._due_at: dict[Who, int] = {}
        self._by_shape: dict[Shape, dict[Who, int]] = {}
        self._by_wish: dict[_Wish, dict[Who, None]] = {}
        self._evicting: dict[Who, None] = {}
        self._minding: dict[Who, None] = {}
        self._by_label: dict[tuple[str, str], dict[Who, None]] = {}

    def __len__(self) -> int:
        return len(self._rests)

    def add(self, rest: Rest) -> Collection[str]:
        """Remember a job that waits for something. The others of its kind, if they say something else."""
        key, who = rest.facts.key, rest.facts.key if rest.kind is None else rest.kind
        self.discard(key)
        self._rests[key] = rest
        said = self._said.get(who)
        if said is not None:
            self._forget(who, said)
        self._keep(who, rest)
        if rest.kind is None:
            return ()
        line = self._lines.setdefault(rest.kind, Line())
        others = () if said is None or said.reason == rest.reason else line.members
        line.add(rest.facts)
        return others

    def discard(self, key: str) -> None:
        """The job is no longer at rest."""
        rest = self._rests.pop(key, None)
        if rest is None:
            return
        if rest.kind is None:
            self._forget(key, rest)
            return
        line = self._lines[rest.kind]
        line.discard(key)
        if not len(line):
            del self._lines[rest.kind]
            self._forget(rest.kind, self._said[rest.kind])

    @property
    def jobs(self) -> Sequence[str]:
        """The keys of all jobs at rest."""
        return list(self._rests)

    @property
    def all(self) -> KeysView[Who]:
        """All of them."""
        return self._said.keys()

    def due(self) -> Sequence[Who]:
        """A schedule period begins: those of which time alone may have changed what plugins say."""
        self._period += 1
        found = list(self._due.get(self._period, ()))
        for who in found:
            self._wait(who, self._said[who].pause)  # once more, should no session come to look at it
        return found

    def line(self, kind: bytes) -> Sequence[JobFacts]:
        """Those of one kind, oldest first, among jobs that rested once."""
        line = self._lines.get(kind)
        return () if line is None else line.order

    def oldest(self, parts: int) -> list[str]:
        """Those that have waited longest, one of so many, at least one where there are any."""
        return list(islice(self._rests, -(-len(self._rests) // parts)))

    def of_queues(self, names: Collection[str]) -> Iterator[Who]:
        """Those of these queues."""
        return (who for who, rest in self._said.items() if rest.facts.queue in names)

    @property
    def has_evicting(self) -> bool:
        """Whether there are any for which others may have to go."""
        return bool(self._evicting)

    def helped(self, victims: Victims) -> Iterator[Iterable[Who]]:
        """Those that others might now go for, in small steps."""
        for (queue, shapes, only_own), whose in list(self._by_wish.items()):
            yield whose if victims.may_help(queue, shapes, only_own=only_own) else ()

    def woken(self, roomier: Collection[int], nodes: NodeTable) -> Iterator[Iterable[Who]]:
        """Those that are worth another look now that something changed, in small steps.

        `roomier`: rows that may hold more than when they were last looked at; `nodes`: as they are now.
        """
        yield self._wary
        rows = np.fromiter(roomier, dtype=np.intp, count=len(roomier))
        for shape, whose in list(self._by_shape.items()) if roomier else ():
            yield _fitting(shape, whose, rows, nodes)

    @property
    def minding(self) -> Sequence[Who]:
        """Those that may have a place elsewhere once other pods come, go or change."""
        return list(self._minding)

    def minding_labels(self, labels: Collection[tuple[str, str]]) -> Iterator[Iterable[Who]]:
        """Those to which pods with one of these values of labels matter, in small steps."""
        for pair in [pair for pair in self._by_label if pair in labels]:
            yield self._by_label.get(pair, ())

    def _keep(self, who: Who, rest: Rest) -> None:
        self._said[who] = rest
        if rest.pause:
            self._wait(who, rest.pause)
        if rest.evicts is not Evicts.NOBODY:
            self._evicting[who] = None
        if rest.is_wary:
            self._wary[who] = None
            return
        if rest.minds is not None:
            self._minding[who] = None
        for pair in rest.minds or ():
            self._by_label.setdefault(pair, {})[who] = None
        for shape in rest.shapes:
            self._by_shape.setdefault(shape, {})[who] = rest.lacking
        if rest.shapes and rest.evicts is not Evicts.NOBODY:
            self._by_wish.setdefault(_wish(rest), {})[who] = None

    def _wait(self, who: Who, periods: int) -> None:
        """Have `who` found due in so many periods; 0: not at all."""
        at = self._due_at.pop(who, None)
        if at is not None:
            _remove(self._due, at, who)
        if periods:
            self._due_at[who] = at = self._period + periods
            self._due.setdefault(at, {})[who] = None

    def _forget(self, who: Who, rest: Rest) -> None:
        del self._said[who]
        self._wait(who, 0)
        self._evicting.pop(who, None)
        if rest.is_wary:
            del self._wary[who]
            return
        self._minding.pop(who, None)
        for pair in rest.minds or ():
            _remove(self._by_label, pair, who)
        for shape in rest.shapes:
            _remove(self._by_shape, shape, who)
        if rest.shapes and rest.evicts is not Evicts.NOBODY:
            _remove(self._by_wish, _wish(rest), who)


def _wish(rest: Rest) -> _Wish:
    return rest.facts.queue, rest.shapes, rest.evicts is Evicts.OWN_QUEUE


def _remove(groups: dict[_Group, dict[Who, _Value]], group: _Group, who: Who) -> None:
    """Take `who` out of its group, which goes with the last."""
    whose = groups[group]
    del whose[who]
    if not whose:
        del groups[group]


def _fitting(shape: Shape, lacking: Mapping[Who, int], rows: Rows, nodes: NodeTable) -> list[Who]:
    """Those for which there may be room now: one of these rows has some, and all nodes together have what they lack."""
    if not lacking or not _copies(shape, rows, nodes, at_most=1):
        return []
    most = max(lacking.values())
    everywhere = np.arange(nodes.columns.nodes)
    room = _copies(shape, everywhere, nodes, at_most=most) if min(lacking.values()) > 1 else most
    return [who for who, count in lacking.items() if count <= room]


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
