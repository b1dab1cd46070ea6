"""What a session leaves behind is taken up by the cache, as the loop of the scheduler does it."""

from __future__ import annotations

from collections.abc import Sequence

from pyroclast_scheduler.cache.cache import Cache
from pyroclast_scheduler.session.outcome import Outcome

__all__ = ["assume_all", "take", "take_rests", "take_statuses"]


def assume_all(cache: Cache, binds: Sequence[tuple[str, str]]) -> str | None:
    """All binds, given as (pod UID, node), are assumed, or none. The reason if one is impossible."""
    return next((problem for problem in cache.pods.assuming(binds) if problem is not None), None)


def take(cache: Cache, outcome: Outcome) -> None:
    """The statuses that are being written, and who rests. What was committed is the caller's."""
    take_statuses(cache, outcome)
    take_rests(cache, outcome)


def take_statuses(cache: Cache, outcome: Outcome) -> None:
    """The statuses that are being written."""
    for key, status in outcome.statuses.items():
        cache.groups.believe(key, status)


def take_rests(cache: Cache, outcome: Outcome) -> None:
    """Who rests, of those who were at rest before too, and which places are kept."""
    for key in outcome.retried:
        cache.retries.examine_again(key)
    for job in outcome.unschedulable:
        cache.retries.add(job)
    cache.keep(outcome.kept)
    cache.promises_ended(outcome.lapsed)
