"""Packs the members of a gang: finds nodes for pods of different sizes together, where one after another they do not fit.

The problem is vector bin packing, which is NP-hard. The scheduler places pods in their order, each on the node with the best
score, because this is fast and spreads the load. A small pod may then take the room of a large one. Two bounded searches follow:

1. Heuristics: kinds of pods in several orders, such as the largest first, each kind on the nodes with the least free room. They
   cost kinds times nodes and find most of what fits.
2. Backtracking over single pods, without equal nodes and states that failed before. It is exact for small gangs, and gives up
   after a number of steps.

Only amounts and the copies that fit on a node are counted here. Whoever uses the result must ask the plugins about each pod.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final, TypeAlias

import numpy as np

from pyroclast_scheduler.model.dimensions import Ints
from pyroclast_scheduler.model.node_columns import Floats, Rows

Packing: TypeAlias = list[tuple[int, Rows]]
"""The kind of pods and a node for each of these pods, in an order in which they can be placed."""

_MOST_SINGLE: Final = 64  # pods and nodes up to which single pods are tried


@dataclass(frozen=True, slots=True)
class Members:
    """The pods to be packed, by kind, and the nodes.

    Attributes:
        requests: what a pod of each kind requests, (kinds, dimensions).
        counts: the number of pods of each kind, (kinds).
        copies: how many pods of each kind fit on each node while no other pod is placed, (kinds, nodes).
        free: the free amounts of each node, (dimensions, nodes).
    """

    requests: Ints
    counts: Ints
    copies: Ints
    free: Ints

    @property
    def may_fit(self) -> bool:
        """Whether each kind would fit alone, and all pods together into the sum of the nodes."""
        if (self.copies.sum(axis=1) < self.counts).any():
            return False
        room = np.maximum(self.free, 0).sum(axis=1, dtype=np.float64)
        return bool((self.counts @ self.requests <= room).all())


def packed(members: Members, steps: int) -> Packing | None:
    """Return nodes for all pods, None if none were found. `steps`: the largest number of trials of a pod on a node."""
    share = _shares(members)
    for order in _orders(members, share):
        found = _packed_in_order(members, order)
        if found is not None:
            return found
    if members.counts.sum() > _MOST_SINGLE or members.free.shape[1] > _MOST_SINGLE:
        return None
    return _Search(members, np.argsort(-share.max(axis=1), kind="stable").tolist(), steps).run()


def _shares(members: Members) -> Floats:
    """Return the request of each kind as a share of the free amounts of all nodes, (kinds, dimensions)."""
    room = np.maximum(np.maximum(members.free, 0).sum(axis=1, dtype=np.float64), 1.0)
    shares: Floats = members.requests / room
    return shares


def _orders(members: Members, share: Floats) -> Iterator[list[int]]:
    """Yield orders of the kinds: by their largest share, by the scarcest resource, by the sum of shares, by fewest copies."""
    scarcest = int((members.counts @ share).argmax())
    known: set[tuple[int, ...]] = set()
    for key in (-share.max(axis=1), -share[:, scarcest], -share.sum(axis=1), members.copies.sum(axis=1) / members.counts):
        order = np.argsort(key, kind="stable").tolist()
        if tuple(order) not in known:
            known.add(tuple(order))
            yield order


def _packed_in_order(members: Members, order: Sequence[int]) -> Packing | None:
    free, found = members.free.copy(), []
    scale = np.maximum(members.free.max(axis=1, initial=1), 1).astype(np.float64)[:, None]
    for kind in order:
        request, left = members.requests[kind], int(members.counts[kind])
        asked = np.flatnonzero(request > 0)
        copies = members.copies[kind]
        if len(asked):
            copies = np.minimum(copies, (np.maximum(free[asked], 0) // request[asked, None]).min(axis=0))
        tightest = np.argsort((free / scale).sum(axis=0), kind="stable")
        filled = np.minimum(copies[tightest], np.maximum(left - (np.cumsum(copies[tightest]) - copies[tightest]), 0))
        if filled.sum() < left:
            return None
        rows = np.repeat(tightest, filled)
        free -= request[:, None] * np.bincount(rows, minlength=free.shape[1])
        found.append((kind, rows))
    return found


class _Search:
    """Backtracking over single pods. A state is the free amounts of the nodes before a kind. Equal nodes are interchangeable."""

    def __init__(self, members: Members, order: Sequence[int], steps: int) -> None:
        self._kinds = [kind for kind in order for _ in range(int(members.counts[kind]))]
        self._requests: list[list[int]] = members.requests.tolist()
        self._copies: list[list[int]] = members.copies.tolist()
        self._free: list[list[int]] = members.free.T.tolist()
        self._alike = [tuple(each) for each in members.copies.T.tolist()]
        self._rows: list[int] = []
        self._failed: set[tuple[object, ...]] = set()
        self._steps = steps

    def run(self) -> Packing | None:
        if not self._place(0):
            return None
        return [(kind, np.array([row], dtype=np.intp)) for kind, row in zip(self._kinds, self._rows, strict=True)]

    def _place(self, number: int) -> bool:
        """Place the pods from `number` on."""
        if number == len(self._kinds):
            return True
        kind = self._kinds[number]
        is_first = not number or self._kinds[number - 1] != kind
        state = (number, *sorted(zip(map(tuple, self._free), self._alike, strict=True))) if is_first else ()
        if is_first and state in self._failed:
            return False
        tried: set[tuple[object, ...]] = set()
        for row in range(0 if is_first else self._rows[-1], len(self._free)):  # equal pods in the order of the nodes
            twin = (*self._free[row], self._alike[row], self._copies[kind][row])
            if twin in tried or not self._fits(kind, row):
                continue
            tried.add(twin)
            self._steps -= 1
            if self._steps < 0:
                return False
            self._move(kind, row, -1)
            self._rows.append(row)
            if self._place(number + 1):
                return True
            self._rows.pop()
            self._move(kind, row, 1)
        if is_first and self._steps >= 0:
            self._failed.add(state)
        return False

    def _fits(self, kind: int, row: int) -> bool:
        amounts = zip(self._free[row], self._requests[kind], strict=True)
        return self._copies[kind][row] > 0 and all(has >= asks for has, asks in amounts if asks)

    def _move(self, kind: int, row: int, sign: int) -> None:
        free = self._free[row]
        self._copies[kind][row] += sign
        for at, amount in enumerate(self._requests[kind]):
            free[at] += sign * amount
