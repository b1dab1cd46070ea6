"""What becomes of a reservation from one schedule period to the next: pure, from what is known of its job and of the nodes."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import msgspec
import numpy as np

from pyroclast_scheduler.model.dimensions import PODS
from pyroclast_scheduler.model.node_columns import Bools, Floats, Rows
from pyroclast_scheduler.model.reservations import Lock, Reservation
from pyroclast_scheduler.plugins.reservation.settings import ALL, ReservationSettings

__all__ = ["Need", "Nodes", "Piece", "covers", "next_state"]


@dataclass(frozen=True, slots=True)
class Piece:
    """Pods that are alike: `request` of one, a vector; how many; and the nodes that pass what they ask of a node."""

    request: Floats
    count: int
    passing: Bools


@dataclass(frozen=True, slots=True)
class Need:
    """What a target still lacks: the sum, a vector, and the pods it is made of as far as they are there, the largest first.

    `was_refused`: there is room for it by quota, and yet it found no nodes this time.
    """

    total: Floats
    pieces: tuple[Piece, ...] = ()
    was_refused: bool = False


@dataclass(frozen=True, slots=True)
class Nodes:
    """What a target may use, arrays over nodes.

    `passing`: ready, open, and they pass what the target asks of a node. `whole`: (dimensions, nodes), what a node has less what
    will not drain. `idle`: what is free now. `taken`: nodes that are locked for others.
    """

    names: list[str]
    rows: Mapping[str, int]
    passing: Bools
    whole: Floats
    idle: Floats
    taken: Bools


def covers(nodes: Nodes, rows: Rows | Sequence[int], need: Need) -> bool:
    """Whether the nodes of `rows`, once drained, hold `need`: in sum, and pod by pod where the pods are known."""
    at = np.asarray(rows, dtype=np.intp)
    room = nodes.whole[:, at]
    asked = need.total > 0
    asked[PODS] = False
    if not (room.sum(axis=1)[asked] >= need.total[asked]).all():
        return False
    for piece in need.pieces:
        takes = piece.request > 0
        fit = np.floor(room[takes] / piece.request[takes, None]).min(axis=0)
        fit = np.where(piece.passing[at], np.maximum(fit, 0), 0)
        placed = np.diff(np.minimum(np.cumsum(fit), piece.count), prepend=0)
        if placed.sum() < piece.count:
            return False
        room = room - piece.request[:, None] * placed
    return True


def _rows(nodes: Nodes, locks: Sequence[Lock]) -> list[int]:
    return [nodes.rows[lock.node] for lock in locks]


def _free(nodes: Nodes, locks: Sequence[Lock], need: Need) -> list[int]:
    """Those of the locked nodes that have drained, by row."""
    rows = _rows(nodes, locks)
    asked = need.total > 0
    drained: list[bool] = np.all(nodes.idle[asked][:, rows] >= nodes.whole[asked][:, rows], axis=0).tolist()
    return [row for row, is_free in zip(rows, drained, strict=True) if is_free]


def next_state(
    state: Reservation, nodes: Nodes, need: Need, settings: ReservationSettings, *, period: int, now: float
) -> Reservation:
    """`state` one step on: nodes that do not pass any more, or are not needed, are given up; missing ones are locked.

    Args:
        state: the reservation as it was.
        nodes: the cluster as it is.
        need: what the target still lacks.
        settings: the plugin's arguments.
        period: the schedule period; so many nodes are locked once in each.
        now: seconds since the epoch.
    """
    kept = [lock for lock in state.locks if (row := nodes.rows.get(lock.node)) is not None and nodes.passing[row]]
    free = _free(nodes, kept, need)
    is_apart = need.was_refused and covers(nodes, free, need)  # there is more to it than room: its pods keep apart, say
    is_short = is_apart and len(free) == len(kept)
    if period == state.period:
        return msgspec.structs.replace(state, locks=tuple(kept))
    most = len(nodes.names)
    if settings.most_share < 1:
        most = int(settings.most_share * int(nodes.passing.sum())) - int((nodes.passing & nodes.taken).sum())
    count = len(nodes.names) if settings.locks_per_period == ALL else settings.locks_per_period
    candidates = _candidates(nodes, list(kept), need, settings.order)
    while count > 0 and len(kept) < most:
        if settings.locks_per_period != ALL and not is_short and covers(nodes, _rows(nodes, kept), need):
            break
        row = next(candidates, None)
        if row is None:
            break
        kept.append(Lock(nodes.names[row], now))
        count -= 1
    if settings.locks_per_period != ALL and not is_apart:
        kept = _without_superfluous(kept, nodes, need)
    return msgspec.structs.replace(state, locks=tuple(kept), period=period)


def _without_superfluous(locks: list[Lock], nodes: Nodes, need: Need) -> list[Lock]:
    """Without those, the latest first, that the rest makes up for."""
    kept = list(locks)
    if not covers(nodes, _rows(nodes, kept), need):
        return kept
    for lock in reversed(locks):
        rest = [each for each in kept if each is not lock]
        if covers(nodes, _rows(nodes, rest), need):
            kept = rest
    return kept


def _candidates(nodes: Nodes, locks: list[Lock], need: Need, order: str) -> Iterator[int]:
    """Nodes that may be locked, the largest first by the resource of which the target needs the greatest part of the cluster.

    They are sought when the first one is asked for: most of the time the nodes that are locked already do.
    """
    locked = set(_rows(nodes, locks))
    rows = [row for row in np.flatnonzero(nodes.passing & ~nodes.taken).tolist() if row not in locked]
    total = np.maximum(nodes.whole[:, nodes.passing].sum(axis=1), 1)
    shares = need.total / total
    shares[PODS] = 0
    by_weight = [at for at in np.argsort(-shares, kind="stable").tolist() if need.total[at] > 0 and at != PODS]
    size = nodes.whole if order == "capacity" else nodes.idle
    rows.sort(key=nodes.names.__getitem__)
    if by_weight:
        best_first = np.lexsort([-size[at, rows] for at in reversed(by_weight)])
        rows = [rows[position] for position in best_first.tolist()]
    yield from rows
