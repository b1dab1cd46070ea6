"""When enough of the locked nodes will be free, by what the jobs that run there say of their own length."""

from __future__ import annotations

from collections.abc import Callable, Iterable

import msgspec

from pyroclast.resources import durations
from pyroclast_scheduler.model.reservations import Reservation

__all__ = ["earliest", "estimate", "expected_end", "promised"]

_GRACE = 1.0  # seconds by which an estimate may be missed before somebody is named for it


def estimate(text: str, assumed: float | None) -> float | None:
    """Seconds that a job runs, by its own estimate or by what is assumed of those that give none; None: not known."""
    try:
        seconds = durations.nanoseconds(text) / 1e9 if text else 0.0
    except durations.DurationError:
        return assumed
    return seconds if seconds > 0 else assumed


def expected_end(started: float, seconds: float, now: float) -> tuple[float, bool]:
    """When a job ends that began at `started` and said it runs `seconds`, and whether it has outlived that.

    Who outlives an estimate is believed to have meant twice that, and so on: a promise moves seldom, not with every look.
    """
    end = started + seconds
    is_late = end + _GRACE < now
    while end + _GRACE < now:
        seconds *= 2
        end = started + seconds
    return end, is_late


def earliest(ends: Iterable[tuple[int, float | None]], is_enough: Callable[[list[int]], bool]) -> float | None:
    """The time at which the nodes that are free by then are enough; None if one that is needed has no known end.

    Args:
        ends: (row of the node, when the last pod there ends), in seconds since the epoch; None: not known.
        is_enough: whether some nodes, by row, hold what is needed.
    """
    free: list[int] = []
    for row, end in sorted(ends, key=lambda each: (each[1] is None, each[1] or 0.0, each[0])):
        free.append(row)
        if is_enough(free):
            return end
    return None


def promised(state: Reservation, found: float | None, blame: str, now: float) -> Reservation:
    """`state` with a promise that may come earlier; it is put off only with `blame`, who outlives an estimate or what went."""
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
