"""The amounts that were free on reserved nodes. Pure."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping
from typing import Final, NamedTuple

import orjson

from pyroclast_recorder.database.tables import Row
from pyroclast_recorder.hourly_usage import held

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

    Args:
        states: the states of the nodes, ordered by node and time. Each state is valid until the next state of the node.
        reservations: the reservations, ordered by PodGroup and time. Each is valid until the next row of the PodGroup.
        pods: the pods on reserved nodes.
        since: the start, in seconds since the epoch.
        until: the end, in seconds since the epoch.
    """
    changes: dict[str, list[_Change]] = defaultdict(list)
    for row in states:
        amounts: Mapping[str, int] = _DOWN if row["is_down"] else orjson.loads(row["allocatable"])
        changes[row["name"]].append(_Change(row["at"], offers=amounts))
    for begin, end, nodes in _spans(reservations, until):
        for name in nodes:
            changes[name] += [_Change(begin, kept=1), _Change(end, kept=-1)]
    for pod in pods:
        time = held(pod)
        if time is not None:
            requests: Mapping[str, int] = orjson.loads(pod["requests"])
            changes[pod["node"]].append(_Change(time.begin, holds=requests))
            if time.end is not None:
                changes[pod["node"]].append(_Change(time.end, holds=requests, sign=-1))
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
