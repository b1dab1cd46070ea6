"""The time for which a pod held its requests, the resulting usage in each hour, and its measured use in each hour. Pure."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from types import MappingProxyType
from typing import Any, Final, NamedTuple

import orjson

from pyroclast_recorder.database.tables import Row, jobs, pods
from pyroclast_recorder.past_states import State, states_of
from pyroclast_recorder.queue_tree import QueueTree

MINUTE: Final = 60
HOUR: Final = 3600
DAY: Final = 24 * HOUR
SUMS: Final = ("asked", "doubtful", "measured", "used")
"""The columns of `usage_hours` that are sums."""


@dataclass(frozen=True, slots=True)
class Held:
    """The time for which a pod held its requests, in seconds since the epoch.

    `end`: None while the pod still holds its requests. `doubt`: the seconds by which `end` may be wrong.
    """

    begin: int
    end: int | None
    doubt: int = 0


class Share(NamedTuple):
    """A resource, and the queue, its ancestors, the namespace, submitter and flow to which its usage is charged."""

    queue: str
    ancestors: str
    namespace: str
    submitted_by: str
    flow: str
    resource: str


def held(pod: Row) -> Held | None:
    """Return the time for which a pod held its requests; None if the pod was never bound. `pod`: the row of the pod.

    The end that the node reports is limited to an interval by the clock of the API server. The interval begins when the pod was
    bound or last seen running, and ends when the recorder saw the end of the pod. Without a reported end, the middle of the
    interval is used. A node that reports a start before the binding has a clock that is behind by at least this time, which is
    added to the end.
    """
    begin, high = pod["bound"], pod["released_high"]
    if begin is None:
        return None
    if high is None:
        return Held(begin, None)
    high = max(high, begin)
    low = min(max(pod["released_low"] or begin, begin), high)
    if pod["finished"] is not None:
        behind = max(0, begin - (pod.get("started") or begin))
        return Held(begin, min(max(pod["finished"] + behind, low), high))
    return Held(begin, (low + high) // 2, -(-(high - low) // 2))


class Interval(NamedTuple):
    """A time in which a pod held the same requests, charged to the same share of the usage.

    `end`: None while the pod still holds them. `doubt`: the seconds by which `end` may be wrong. `requests`: the amounts by
    resource, as JSON. `whose`: the queue, the submitter and the flow. `ancestors`: see `usage_hours`.
    """

    begin: int
    end: int | None
    doubt: int
    requests: str
    whose: tuple[str, str, str]
    ancestors: str

    def amounts(self) -> Mapping[str, int]:
        """Return the requests by resource."""
        found: dict[str, int] = orjson.loads(self.requests)
        return found

    def seconds(self, since: int, until: int) -> int:
        """Return the seconds of the interval between two times. An interval without an end ends at `until`."""
        return max(0, min(until if self.end is None else self.end, until) - max(self.begin, since))


NO_QUEUES: Final = QueueTree()


def intervals(pod: Row, job: Row | None, tree: QueueTree = NO_QUEUES) -> list[Interval]:
    """Return the intervals of a pod in order: a resize, another queue and other ancestors of the queue begin a new one.

    A pod without a Job is charged to the queue that it names. `pod`: the row of the pod. `job`: the row of its Job; None when the
    pod has no Job. `tree`: the queues over time.
    """
    time = held(pod)
    if time is None:
        return []
    of_pod = states_of(pods, pod)
    of_job = None if job is None else states_of(jobs, job)
    times = {state.since for state in (*of_pod, *(of_job or ()))} | set(tree.changes)
    begins = [time.begin, *sorted(at for at in times if time.begin < at and (time.end is None or at < time.end))]
    found: list[Interval] = []
    for begin, end in zip(begins, (*begins[1:], time.end), strict=True):
        requests, queue = _at(of_pod, begin)
        whose = (queue or "default", "unknown", "") if of_job is None else _whose(_at(of_job, begin))
        new = Interval(begin, end, 0, requests or "{}", whose, tree.ancestors(whose[0], begin))
        if found and found[-1][3:] == new[3:]:
            new = new._replace(begin=found.pop().begin)
        found.append(new)
    return [*found[:-1], found[-1]._replace(doubt=time.doubt)]


def _at(states: Sequence[State], time: int) -> tuple[Any, ...]:
    return next(state.values for state in reversed(states) if state.since <= time)


def _whose(values: tuple[Any, ...]) -> tuple[str, str, str]:
    queue, user, owner_kind, owner_name = values
    return queue or "default", user or "unknown", (owner_name or "") if owner_kind == "JobFlow" else ""


def asked_by(pod: Row, now: int) -> tuple[Counter[str], Counter[str]]:
    """Return what a pod asked for until `now` in amounts × seconds, by resource, and the doubtful part of it."""
    asked: Counter[str] = Counter()
    doubtful: Counter[str] = Counter()
    for each in intervals(pod, None):
        for resource, amount in each.amounts().items():
            asked[resource] += amount * each.seconds(0, max(now, each.begin) if each.end is None else each.end)
            if each.doubt:
                doubtful[resource] += amount * each.doubt
    return asked, doubtful


def changed_hours(old: Sequence[Interval], new: Sequence[Interval], now: int) -> Iterator[int]:
    """Yield the first second of each hour in which the usage of a pod differs between `old` and `new`, its intervals in order.

    A pod that still runs is counted until `now`.
    """
    before, after = (
        [each if each.end is not None else each._replace(end=max(now, each.begin) + 1) for each in way] for way in (old, new)
    )
    times = sorted({time for each in (*before, *after) for time in (each.begin, each.end or 0)})
    for begin, end in pairwise(times):
        one, other = (next((each[3:] for each in way if each.begin <= begin < (each.end or 0)), None) for way in (before, after))
        if one != other:
            yield from hours_between(begin, end)
    ends = [[(each.end or 0, each.doubt) for each in way if each.doubt] for way in (before, after)]
    if ends[0] != ends[1]:
        yield from (end // HOUR * HOUR for way in ends for end, _ in way)


def hours_between(begin: int, end: int) -> range:
    """Return the first second of each hour that overlaps the time from `begin` to `end`."""
    return range(begin // HOUR * HOUR, max(begin, end) + 1, HOUR)


class HourUsage:
    """Adds up the usage in one hour. `now`: the time until which running pods are counted. `tree`: the queues over time."""

    def __init__(self, hour: int, now: int, tree: QueueTree = NO_QUEUES) -> None:
        self._hour, self._now, self._tree = hour, now, tree
        self._shares: dict[Share, Counter[str]] = defaultdict(Counter)

    def add(self, pod: Row, job: Row | None, means: Mapping[str, int] = MappingProxyType({})) -> None:
        """Add the usage of a pod. A pod that did not hold its requests in this hour adds nothing.

        `job`: the row of the pod's Job; None when the pod has no Job. `means`: the mean measured use of the pod, by resource,
        without resources that were not measured.
        """
        until = self._hour + HOUR
        for each in intervals(pod, job, self._tree):
            seconds = each.seconds(self._hour, min(until, self._now) if each.end is None else until)
            doubt = each.doubt if self._hour <= (each.end or 0) < until else 0
            if not seconds and not doubt:
                continue
            for resource, amount in each.amounts().items():
                sums = self._shares[_share_of(each, pod["namespace"], resource)]
                sums["asked"] += amount * seconds
                sums["doubtful"] += amount * doubt
                if resource in means:
                    sums["measured"] += amount * seconds
                    sums["used"] += means[resource] * seconds

    def rows(self) -> list[dict[str, Any]]:
        """Return the rows of `usage_hours`, without the column `cluster`."""
        shares = sorted(self._shares.items())
        return [{"hour": self._hour, **share._asdict(), **{name: sums[name] for name in SUMS}} for share, sums in shares]


def _share_of(interval: Interval, namespace: str, resource: str) -> Share:
    queue, user, flow = interval.whose
    return Share(queue, interval.ancestors, namespace, user, flow, resource)


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
