"""The promise: when enough of the locked nodes will be free, by the declared run times of the jobs on them."""

from __future__ import annotations

from collections.abc import Callable, Iterable

import msgspec

from pyroclast.resources import durations
from pyroclast_scheduler.model.reservations import Reservation

_GRACE = 1.0  # seconds by which an estimate may be exceeded before the job is named as the cause


def estimate(text: str, assumed: float | None) -> float | None:
    """Return the declared run time of a job in seconds, or `assumed` if none is declared; None if it is unknown."""
    try:
        seconds = durations.nanoseconds(text) / 1e9 if text else 0.0
    except durations.DurationError:
        return assumed
    return seconds if seconds > 0 else assumed


def expected_end(started: float, seconds: float, now: float) -> tuple[float, bool]:
    """Return when a job ends that started at `started` and declared `seconds`, and whether it has exceeded that.

    The run time of a job that exceeds its estimate is doubled, so that the promise changes rarely.
    """
    end = started + seconds
    is_late = end + _GRACE < now
    while end + _GRACE < now:
        seconds *= 2
        end = started + seconds
    return end, is_late


def earliest(ends: Iterable[tuple[int, float | None]], is_enough: Callable[[list[int]], bool]) -> float | None:
    """Return when enough nodes are free; None if a needed node has no known end.

    Args:
        ends: (row of the node, end of its last pod in seconds since the epoch or None if unknown).
        is_enough: whether nodes, by row, satisfy the need.
    """
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
