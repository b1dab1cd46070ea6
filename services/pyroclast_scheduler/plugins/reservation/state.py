"""The step of a reservation from one schedule period to the next: pure, from the state of its job and of the nodes."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import msgspec
import numpy as np

from pyroclast_scheduler.model.dimensions import PODS
from pyroclast_scheduler.model.node_columns import Bools, Floats, Rows
from pyroclast_scheduler.model.reservations import Lock, Reservation
from pyroclast_scheduler.plugins.reservation.settings import ALL, ReservationSettings


@dataclass(frozen=True, slots=True)
class Piece:
    """Equal pods of the target: the `request` of one as a vector, their number, and the nodes that are feasible for them."""

    request: Floats
    count: int
    passing: Bools


@dataclass(frozen=True, slots=True)
class Need:
    """The amounts that a target still needs, as a vector, and the pods if they exist, the largest first.

    `was_refused`: the quota has room, and still no nodes were found in this session.
    """

    total: Floats
    pieces: tuple[Piece, ...] = ()
    was_refused: bool = False


@dataclass(frozen=True, slots=True)
class Nodes:
    """The nodes that a target may use, as arrays over nodes.

    Attributes:
        names: the name of each node, by its index in the arrays (its row).
        rows: the row of each node, by its name.
        passing: a mask of the nodes that are ready, not marked unschedulable, and feasible for the target.
        whole: (dimensions, nodes), the allocatable amounts of each node less the requests of its lasting pods.
        idle: (dimensions, nodes), the amounts that are free now.
        taken: a mask of the nodes that are locked for other targets.
    """

    names: list[str]
    rows: Mapping[str, int]
    passing: Bools
    whole: Floats
    idle: Floats
    taken: Bools


def covers(nodes: Nodes, rows: Rows | Sequence[int], need: Need) -> bool:
    """Whether the nodes of `rows`, once drained, satisfy `need`: in sum, and pod by pod if the pods are known."""
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
    """Return the rows of the locked nodes that have drained."""
    rows = _rows(nodes, locks)
    asked = need.total > 0
    drained: list[bool] = np.all(nodes.idle[asked][:, rows] >= nodes.whole[asked][:, rows], axis=0).tolist()
    return [row for row, is_free in zip(rows, drained, strict=True) if is_free]


def next_state(
    state: Reservation, nodes: Nodes, need: Need, settings: ReservationSettings, *, period: int, now: float
) -> Reservation:
    """Return `state` after one step: infeasible and superfluous nodes are released, and missing ones are locked.

    Args:
        state: the reservation before the step.
        nodes: the present nodes.
        need: the amounts that the target still needs.
        settings: the plugin's arguments.
        period: the schedule period; at most `settings.locks_per_period` nodes are locked in each.
        now: seconds since the epoch.
    """
    kept = [lock for lock in state.locks if (row := nodes.rows.get(lock.node)) is not None and nodes.passing[row]]
    free = _free(nodes, kept, need)
    is_apart = need.was_refused and covers(nodes, free, need)  # room is not the reason, but for instance anti-affinity
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
    """Return the locks without those that the others make superfluous; the latest locks are dropped first."""
    kept = list(locks)
    if not covers(nodes, _rows(nodes, kept), need):
        return kept
    for lock in reversed(locks):
        rest = [each for each in kept if each is not lock]
        if covers(nodes, _rows(nodes, rest), need):
            kept = rest
    return kept


def _candidates(nodes: Nodes, locks: list[Lock], need: Need, order: str) -> Iterator[int]:
    """Yield the nodes that may be locked, the largest first, by the resource of which the target needs most of the cluster.

    The nodes are only sorted when the first one is requested, since the locked nodes are usually enough.
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
