"""The division of the resources of all nodes over a time into allocated, reserved, idle and down, by periods in UTC. Pure."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping
from datetime import UTC, datetime, timedelta
from typing import Any, Final, NamedTuple

import orjson

from pyroclast_recorder.database.tables import Row
from pyroclast_recorder.hourly_usage import intervals

LENGTHS: Final = {"hour": 3600, "day": 86_400}
"""The seconds of the periods with a fixed length."""


def period_of(seconds: int, per: str) -> str:
    """Return the name of the hour, day, week or month of a time, in the form of ISO 8601."""
    moment = datetime.fromtimestamp(seconds, UTC)
    match per:
        case "hour":
            return moment.strftime("%Y-%m-%dT%H:00Z")
        case "day":
            return moment.strftime("%Y-%m-%d")
        case "week":
            year, week, _ = moment.isocalendar()
            return f"{year}-W{week:02}"
    return moment.strftime("%Y-%m")


def spans(since: int, until: int, per: str) -> Iterator[tuple[str, int, int]]:
    """Yield the name, the first second and the last second of each week or month between two times.

    For `per` "all", yield one span from `since` to `until` with an empty name.
    """
    begin = since
    while begin <= until:
        end = until if per == "all" else min(until, _next(begin, per) - 1)
        yield "" if per == "all" else period_of(begin, per), begin, end
        begin = end + 1


def _next(seconds: int, per: str) -> int:
    """Return the start of the next week or month, in seconds since the epoch."""
    day = datetime.fromtimestamp(seconds, UTC).replace(hour=0, minute=0, second=0)
    if per == "week":
        return int((day + timedelta(days=7 - day.weekday())).timestamp())
    return int((day.replace(day=1) + timedelta(days=32)).replace(day=1).timestamp())


_DOWN: Final[Mapping[str, int]] = {}
"""The resources of a node that is down, deleted, or not recorded yet."""


class _Change(NamedTuple):
    """A change on a node at the time `at`.

    `offers`: the new allocatable resources; None when they do not change. `kept`: the change of the number of reservations.
    `holds`: the requests of a pod that begins (`sign` 1) or ends (`sign` -1).
    """

    at: int
    offers: Mapping[str, int] | None = None
    kept: int = 0
    holds: Mapping[str, int] = {}
    sign: int = 1


def kept_names(reservations: Iterable[Row]) -> set[str]:
    """Return the names of all nodes that were reserved."""
    return {name for row in reservations for name in orjson.loads(row["nodes"])}


def reserved_amounts(
    states: Iterable[Row], reservations: Iterable[Row], pods: Iterable[Row], since: int, until: int
) -> Mapping[str, int]:
    """Return the amounts that no pod held on nodes while these nodes were reserved, by resource, in amounts × seconds.

    `states`: the states of the nodes, ordered by node and time. Each state is valid until the next state of the node.
    `reservations`: the reservations, ordered by PodGroup and time. Each is valid until the next row of the PodGroup. `pods`: the
    pods on reserved nodes.
    """
    changes: dict[str, list[_Change]] = defaultdict(list)
    for row in states:
        amounts: Mapping[str, int] = _DOWN if row["is_down"] else orjson.loads(row["allocatable"])
        changes[row["name"]].append(_Change(row["at"], offers=amounts))
    for begin, end, nodes in _spans(reservations, until):
        for name in nodes:
            changes[name] += [_Change(begin, kept=1), _Change(end, kept=-1)]
    for pod in pods:
        for each in intervals(pod, None):
            requests = each.amounts()
            changes[pod["node"]].append(_Change(each.begin, holds=requests))
            if each.end is not None:
                changes[pod["node"]].append(_Change(each.end, holds=requests, sign=-1))
    total: Counter[str] = Counter()
    for of_node in changes.values():
        if any(change.kept for change in of_node):
            total += _of_node(sorted(of_node, key=lambda change: change.at), since, until)
    return total


def _spans(reservations: Iterable[Row], until: int) -> Iterable[tuple[int, int, list[str]]]:
    """Yield the start, the end and the nodes of each reservation."""
    before: Row | None = None
    for row in (*reservations, None):
        if before is not None and (nodes := orjson.loads(before["nodes"])):
            goes_on = row is None or row["uid"] != before["uid"]
            yield before["at"], until if goes_on or row is None else row["at"], nodes
        before = row


def _of_node(changes: Iterable[_Change], since: int, until: int) -> Counter[str]:
    offers, kept, last = _DOWN, 0, since
    holds: Counter[str] = Counter()
    found: Counter[str] = Counter()
    for change in (*changes, _Change(until)):
        at = min(max(change.at, since), until)
        if kept and at > last:
            for name, amount in offers.items():
                found[name] += max(0, amount - holds[name]) * (at - last)
        last = at
        offers = offers if change.offers is None else change.offers
        kept += change.kept
        for name, amount in change.holds.items():
            holds[name] += change.sign * amount
    return found


def cluster_rows(
    states: Iterable[Mapping[str, Any]], allocated: Mapping[str, int], reserved: Mapping[str, int], since: int, until: int
) -> list[dict[str, Any]]:
    """Return a row for each resource: `allocated + reserved + idle + down == total`, in amounts × seconds.

    `states`: the states of all nodes, ordered by node and time. Each state is valid until the next state of the node.
    `allocated`: the amounts that pods held, and `reserved`: those that were free on reserved nodes, by resource. Amounts that
    pods held on a node that was down count as allocated. Amounts that pods held before their node was recorded are part of the
    total.
    """
    total: Counter[str] = Counter()
    down: Counter[str] = Counter()
    before: Mapping[str, Any] | None = None
    for state in (*states, None):
        if before is not None:
            end = until if state is None or state["uid"] != before["uid"] else min(until, state["at"])
            seconds = max(0, end - max(since, before["at"]))
            for name, amount in orjson.loads(before["allocatable"]).items():
                total[name] += amount * seconds
                down[name] += amount * seconds if before["is_down"] else 0
        before = state
    rows = []
    for name in sorted(total | Counter(allocated)):
        held = allocated.get(name, 0)
        whole = max(total[name], held)
        lost = min(down[name], whole - held)
        kept = min(reserved.get(name, 0), whole - held - lost)
        rest = {"reserved": kept, "idle": whole - held - lost - kept, "down": lost, "total": whole}
        rows.append({"resource": name, "allocated": held, **rest})
    return rows
