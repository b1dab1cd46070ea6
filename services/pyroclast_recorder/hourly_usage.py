"""The time for which a pod held its requests, the resulting usage in each hour, and its measured use in each hour. Pure."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, Final, NamedTuple

import orjson

from pyroclast_recorder.database.tables import Row

HOUR: Final = 3600
DAY: Final = 24 * HOUR


@dataclass(frozen=True, slots=True)
class Held:
    """The time for which a pod held its requests, in seconds since the epoch.

    `end`: None while the pod still holds its requests. `doubt`: the seconds by which `end` may be wrong.
    """

    begin: int
    end: int | None
    doubt: int = 0


class Share(NamedTuple):
    """A resource, and the queue, namespace, submitter and flow to which its usage is charged."""

    queue: str
    namespace: str
    submitted_by: str
    flow: str
    resource: str


def held(pod: Row) -> Held | None:
    """Return the time for which a pod held its requests; None if the pod was never bound. `pod`: the row of the pod.

    The end that the node reports is limited to an interval by the clock of the API server. The interval begins when the pod was
    bound or last seen running, and ends when the recorder saw the end of the pod. Without a reported end, the middle of the
    interval is used.
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
    """Yield the first second of each hour in which the usage of a pod differs between `old` and `new`.

    None means no usage. A pod that still runs is counted until `now`.
    """
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
    """Return the first second of each hour that overlaps the time from `begin` to `end`."""
    return range(begin // HOUR * HOUR, max(begin, end) + 1, HOUR)


class HourUsage:
    """Adds up the usage in one hour. `now`: the time until which running pods are counted."""

    def __init__(self, hour: int, now: int) -> None:
        self._hour, self._now = hour, now
        self._shares: dict[Share, Counter[str]] = defaultdict(Counter)

    def add(self, pod: Row, job: Row | None, means: Mapping[str, int] = MappingProxyType({})) -> None:
        """Add the usage of a pod. A pod that did not hold its requests in this hour adds nothing.

        `job`: the row of the pod's Job; None when the pod has no Job. `means`: the mean measured use of the pod, by resource,
        without resources that were not measured.
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
            sums = self._shares[share_of(pod, job, resource)]
            sums["asked"] += amount * seconds
            sums["doubtful"] += amount * doubt
            if resource in means:
                sums["measured"] += amount * seconds
                sums["used"] += means[resource] * seconds

    def rows(self) -> list[dict[str, Any]]:
        """Return the rows of `usage_hours`, without the column `cluster`."""
        columns = ("asked", "doubtful", "measured", "used")
        shares = sorted(self._shares.items())
        return [{"hour": self._hour, **share._asdict(), **{name: sums[name] for name in columns}} for share, sums in shares]


def share_of(pod: Row, job: Row | None, resource: str) -> Share:
    """Return the share to which the usage of a pod is charged. A pod without a Job is charged to the queue that it names."""
    if job is None:
        return Share(pod["queue"] or "default", pod["namespace"], "unknown", "", resource)
    flow = job["owner_name"] if job["owner_kind"] == "JobFlow" else None
    return Share(job["queue"] or "default", pod["namespace"], job["submitted_by"] or "unknown", flow or "", resource)


OF_THE_WHOLE_RUN: Final = "prometheus"
"""The source of rows that cover the whole run of a pod."""

_LEAST: Final = 3


def means_in(hour: int, rows: Iterable[Row]) -> dict[str, dict[str, int]]:
    """Return the mean use of each pod in an hour, by pod and resource.

    The samples of the day of the hour are used, else of the last day before, else of the first day after. The rows of one day,
    which several replicas may write, are combined. Days with fewer than 3 samples are ignored.
    """
    by_day: dict[tuple[str, str], dict[int, list[Row]]] = defaultdict(lambda: defaultdict(list))
    for row in rows:
        by_day[row["pod"], row["resource"]][row["since"] // DAY].append(row)
    found: dict[str, dict[str, int]] = defaultdict(dict)
    for (pod, resource), days in by_day.items():
        before = [day for day in days if day <= hour // DAY]
        of_day = days[max(before) if before else min(days)]
        samples = sum(row["samples"] for row in of_day)
        if samples >= _LEAST:
            found[pod][resource] = sum(row["mean"] * row["samples"] for row in of_day) // samples
    return found


def measured_hours(use: Row, time: Held, now: int) -> range:
    """Return the first second of each hour that must be added up again when a measurement of a pod is written.

    The result is empty while the pod runs on the day of the measurement. The last hour of a running pod is added up in any case,
    and the other hours of the day are added up at the end of the day or of the pod.
    """
    if use["source"] == OF_THE_WHOLE_RUN:
        return hours_between(time.begin, now if time.end is None else time.end)
    day_ends = (use["since"] // DAY + 1) * DAY - 1
    if time.end is None and now <= day_ends:
        return range(0)
    end = min(now if time.end is None else time.end, day_ends)
    return hours_between(min(max(time.begin, use["since"] // DAY * DAY), end), end)
