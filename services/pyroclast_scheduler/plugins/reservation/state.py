"""The step of a reservation from one schedule period to the next: pure, from arguments and the state of its job and nodes.

The promise says when enough of the locked nodes will be free, by the declared run times of the jobs on them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

import msgspec
import numpy as np

from pyroclast.resources import durations
from pyroclast_scheduler.model.dimensions import PODS
from pyroclast_scheduler.model.node_columns import Bools, Floats, Rows
from pyroclast_scheduler.model.reservations import Lock, Reservation
from pyroclast_scheduler.session.arguments import Arguments

_GRACE = 1.0  # seconds by which an estimate may be exceeded before the job is named as the cause
ALL: Final = -1
"""The value of `locks_per_period` that locks all nodes which the target may use at once."""


def estimate(text: str, assumed: float | None) -> float | None:
    """Return the declared run time of a job in seconds, or `assumed` if none is declared; None if it is unknown."""
    seconds = durations.seconds(text) or 0.0
    return seconds if seconds > 0 else assumed


def expected_end(started: float, seconds: float, now: float) -> tuple[float, bool]:
    """Return when a job that declared `seconds` ends, doubled when it exceeds them, and whether it has exceeded them."""
    end = started + seconds
    is_late = end + _GRACE < now
    while end + _GRACE < now:
        seconds *= 2
        end = started + seconds
    return end, is_late


def earliest(ends: Iterable[tuple[int, float | None]], is_enough: Callable[[list[int]], bool]) -> float | None:
    """Return when enough nodes are free by `ends`, pairs of row and time; None if a needed node has no known end."""
    free: list[int] = []
    for row, end in sorted(ends, key=lambda each: (each[1] is None, each[1] or 0.0, each[0])):
        free.append(row)
        if is_enough(free):
            return end
    return None


def promised(state: Reservation, found: float | None, blame: str, now: float) -> Reservation:
    """Return `state` with a new promise. It may be earlier, but only later with `blame`: an exceeded estimate or a lost node."""
    following = _moved(state, found, blame, now)
    known = [each for each in (state.fill_until, following.promise) if each is not None]
    return msgspec.structs.replace(following, fill_until=min(known, default=None))


def _moved(state: Reservation, found: float | None, blame: str, now: float) -> Reservation:
    if state.promise is None or found is None:
        is_lost = found is None and state.promise is not None and (blame or now > state.promise + _GRACE)
        if found is not None or is_lost:
            return msgspec.structs.replace(state, promise=found, late=blame if is_lost else state.late)
        return state
    if found <= state.promise:
        return msgspec.structs.replace(state, promise=found)
    if found > state.promise + _GRACE and blame:
        return msgspec.structs.replace(state, promise=found, late=blame)
    return state


@dataclass(frozen=True, slots=True)
class ReservationSettings:
    """The arguments of the plugin. `locks_per_period`: of nodes. `is_preemptive`: pods with lower priority are evicted from them.

    `order`: nodes are compared by `capacity` or `idle` amounts; the largest is locked first. `by_queue`: each queue has its own
    target. `most_share`: the largest part of the nodes that may be locked for all targets. `least_wait`: the seconds that a job
    waits before it can be a target. `fills`: other jobs may use locked nodes if they end before these are needed. `assumed`: the
    run time of a job without an estimate, in seconds; None if it is unknown.
    """

    order: str = "capacity"
    locks_per_period: int = 1
    is_preemptive: bool = False
    by_queue: bool = False
    most_share: float = 1.0
    least_wait: float = 0.0
    fills: bool = True
    assumed: float | None = None

    @classmethod
    def of(cls, arguments: Arguments) -> ReservationSettings:
        """Return the settings in the arguments of the plugin. An invalid value is replaced by the default, with a warning."""
        return cls(
            order=_one_of(arguments, "nodeOrder", ("capacity", "idle")),
            locks_per_period=_locks(arguments),
            is_preemptive=arguments.boolean("preemptive", default=False),
            by_queue=_one_of(arguments, "targetScope", ("cluster", "queue")) == "queue",
            most_share=_share(arguments),
            least_wait=_duration(arguments, "minWait") or 0.0,
            fills=arguments.boolean("fill", default=True),
            assumed=_duration(arguments, "assumeDuration"),
        )


def _one_of(arguments: Arguments, key: str, words: tuple[str, ...]) -> str:
    word = arguments.text(key, words[0])
    if word in words:
        return word
    arguments.warnings.append(f"argument {key}: {word!r} is not {' or '.join(words)}; using {words[0]}")
    return words[0]


def _locks(arguments: Arguments) -> int:
    if arguments.get("locksPerCycle") == "all":
        arguments.known.add("locksPerCycle")
        return ALL
    count = arguments.integer("locksPerCycle", 1)
    if count >= 1:
        return count
    arguments.warnings.append(f"argument locksPerCycle: {count} is not 1 or more, nor all; using 1")
    return 1


def _share(arguments: Arguments) -> float:
    share = arguments.number("maxLockedShare", 1.0)
    if 0 < share <= 1:
        return share
    arguments.warnings.append(f"argument maxLockedShare: {share} is not above 0 and at most 1; using 1")
    return 1.0


def _duration(arguments: Arguments, key: str) -> float | None:
    text = arguments.text(key, "")
    seconds = durations.seconds(text)
    if text and seconds is None:
        arguments.warnings.append(f"argument {key}: {text!r} is no duration such as 10m; it is left out")
    return seconds


@dataclass(frozen=True, slots=True)
class Piece:
    """Equal pods of the target: the `request` of one as a vector, their number, and the nodes that are feasible for them."""

    request: Floats
    count: int
    passing: Bools


@dataclass(frozen=True, slots=True)
class Need:
    """The amounts that a target still needs, and its pods, the largest first. `was_refused`: the quota has room, but no node."""

    total: Floats
    pieces: tuple[Piece, ...] = ()
    was_refused: bool = False


@dataclass(frozen=True, slots=True)
class Nodes:
    """The nodes that a target may use. `names` and `rows` map between names and rows; the others are arrays over nodes.

    `passing`: ready, not marked unschedulable, and feasible for the target. `whole`: (dimensions, nodes), the allocatable amounts
    less the requests of lasting pods. `idle`: the amounts that are free now. `taken`: the nodes locked for other targets.
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
    """Return `state` one step later: unfit and superfluous nodes are released, missing ones locked, limited per `period`."""
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
