"""How long a pod held what it asked for, and what that makes in each hour. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, Final, NamedTuple

import orjson

from pyroclast_recorder.database.tables import Row

__all__ = ["DAY", "HOUR", "Held", "HourUsage", "Share", "changed_hours", "held", "hours_between"]

HOUR: Final = 3600
DAY: Final = 24 * HOUR


@dataclass(frozen=True, slots=True)
class Held:
    """From when until when a pod held its requests, in seconds; `end` None: it still does.

    `doubt`: by how much `end` may be off.
    """

    begin: int
    end: int | None
    doubt: int = 0


class Share(NamedTuple):
    """Who used a resource."""

    queue: str
    namespace: str
    submitted_by: str
    flow: str
    resource: str


def held(pod: Row) -> Held | None:
    """What the row of a pod tells; None if it was never bound.

    The clock of a node counts only between two moments by the clock of the API server: when the pod was bound or seen to run,
    and when it was seen to have ended. If the node says nothing, the middle between both counts.
    """
    begin, high = pod["bound"], pod["released_high"]
    if begin is None:
        return None
    if high is None:
        return Held(begin, None)
    high = max(high, begin)
    low = min(max(pod["released_low"] or begin, begin), high)
    if pod["finished"] is not None:
        return Held(begin, min(max(pod["finished"], low), high))
    return Held(begin, (low + high) // 2, -(-(high - low) // 2))


def changed_hours(old: Held | None, new: Held | None, now: int) -> Iterator[int]:
    """The hours, by their first second, in which two views of a pod differ. What still runs ends now."""
    bounds = [None if each is None else (each.begin, now if each.end is None else each.end) for each in (old, new)]
    before, after = bounds
    if before is None or after is None:
        for each in bounds:
            if each is not None:
                yield from hours_between(*each)
        return
    for one, other in zip(before, after, strict=True):
        if one != other:
            yield from hours_between(min(one, other), max(one, other))
    if old is not None and new is not None and old.doubt != new.doubt:
        yield after[1] // HOUR * HOUR


def hours_between(begin: int, end: int) -> range:
    """The hours that a time from `begin` to `end` touches."""
    return range(begin // HOUR * HOUR, max(begin, end) + 1, HOUR)


class HourUsage:
    """Adds up what was used in one hour.

    Args:
        hour: its first second.
        now: until when pods that still run are counted.
    """

    def __init__(self, hour: int, now: int) -> None:
        self._hour, self._now = hour, now
        self._asked: Counter[Share] = Counter()
        self._doubtful: Counter[Share] = Counter()
        self._measured: Counter[Share] = Counter()
        self._used: Counter[Share] = Counter()

    def add(self, pod: Row, job: Row | None, means: Mapping[str, int] = MappingProxyType({})) -> None:
        """Add a pod, with its Job if it has one; a pod that the hour does not touch adds nothing.

        `means`: what it used, by resource; those that nobody measured are left out.
        """
        time = held(pod)
        if time is None:
            return
        end = self._now if time.end is None else time.end
        until = self._hour + HOUR
        seconds = max(0, min(end, until) - max(time.begin, self._hour))
        doubt = time.doubt if self._hour <= end < until else 0
        if not seconds and not doubt:
            return
        for resource, amount in orjson.loads(pod["requests"]).items():
            share = share_of(pod, job, resource)
            self._asked[share] += amount * seconds
            self._doubtful[share] += amount * doubt
            if resource in means:
                self._measured[share] += amount * seconds
                self._used[share] += means[resource] * seconds

    def rows(self) -> list[dict[str, Any]]:
        """The rows of `usage_hours`, without the cluster."""
        return [
            {
                "hour": self._hour,
                **share._asdict(),
                "asked": asked,
                "doubtful": self._doubtful[share],
                "measured": self._measured[share],
                "used": self._used[share],
            }
            for share, asked in sorted(self._asked.items())
        ]


def share_of(pod: Row, job: Row | None, resource: str) -> Share:
    """Whom the use of a resource is put down to: a pod without a Job belongs to the queue that it names."""
    if job is None:
        return Share(pod["queue"] or "default", pod["namespace"], "unknown", "", resource)
    flow = job["owner_name"] if job["owner_kind"] == "JobFlow" else None
    return Share(job["queue"] or "default", pod["namespace"], job["submitted_by"] or "unknown", flow or "", resource)
