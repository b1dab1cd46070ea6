"""The rows of queues by minute: limits, allocated amounts and requests. Pure."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final

import orjson

from pyroclast.api.enums import JobPhase
from pyroclast.api.records.groups import Queue
from pyroclast_recorder.database.tables import Row
from pyroclast_recorder.facts.units import clipped, read_amounts

MINUTE: Final = 60

Asked = Mapping[str, tuple[Mapping[str, int], Mapping[str, int]]]
"""The requests of all Jobs of a queue and the requests of its waiting Jobs, by queue."""

WAITING: Final = frozenset({"", None, JobPhase.PENDING})


def asked_of_queues(open_jobs: Iterable[tuple[str | None, str | None, str, int]]) -> Asked:
    """Add up the requests of unfinished Jobs by queue.

    `open_jobs`: tuples of queue, phase, requests as JSON, and number of Jobs.
    """
    requested: dict[str, Counter[str]] = defaultdict(Counter)
    waiting: dict[str, Counter[str]] = defaultdict(Counter)
    for queue, phase, requests, number in open_jobs:
        for name, amount in orjson.loads(requests).items():
            requested[queue or "default"][name] += amount * number
            if phase in WAITING:
                waiting[queue or "default"][name] += amount * number
    return {queue: (amounts, waiting[queue]) for queue, amounts in requested.items()}


def minute_facts(queue: Queue, asked: Asked, now: int) -> Iterator[Row]:
    """Yield the rows of `queue_minutes` of a queue: a row for each resource in its spec, its status or its requests."""
    spec, nothing = queue.spec, (Counter[str](), Counter[str]())
    requested, waiting = asked.get(queue.metadata.name, nothing)
    amounts: dict[str, Mapping[str, int]] = {
        "guarantee": read_amounts(spec.guarantee.resource),
        "deserved": read_amounts(spec.deserved),
        "allocated": read_amounts(queue.status.allocated),
        "requested": requested,
        "waiting": waiting,
    }
    limits = read_amounts(spec.capability)
    for resource in sorted({*limits, *(name for each in amounts.values() for name in each)}):
        row: dict[str, Any] = {name: each.get(resource, 0) for name, each in amounts.items()}
        limit = 0 if resource in (spec.capability or {}) else None
        row |= {"queue": clipped(queue.metadata.name, 253), "minute": now // MINUTE * MINUTE, "resource": clipped(resource, 253)}
        yield row | {"capability": limits.get(resource, limit)}
