"""The sink of queues, which writes the limits, the allocated amounts and the requests of each queue every minute."""

from __future__ import annotations

import asyncio
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, Final

import msgspec
import orjson
import structlog

from pyroclast.api import keys
from pyroclast.api.enums import JobPhase
from pyroclast.api.records.groups import Queue
from pyroclast.api.records.meta import Meta
from pyroclast.api.run_lengths import digest
from pyroclast_recorder.database.connections import DatabaseUnavailable
from pyroclast_recorder.database.database import Database
from pyroclast_recorder.database.tables import Row, queue_minutes, queue_parents, queue_settings
from pyroclast_recorder.facts.units import clipped, read_amounts, seconds
from pyroclast_recorder.following.stream import ListedSink
from pyroclast_recorder.following.writer import RowTaker
from pyroclast_recorder.hourly_usage import MINUTE
from pyroclast_recorder.queue_tree import ROOT

log = structlog.get_logger()


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


SETTINGS: Final = (keys.QUEUE_BUDGET, keys.QUEUE_PERSON_LIMITS)
MOST_SETTINGS: Final = 16_384
"""The most bytes of settings. Of longer ones, only their digest is recorded, so that a change is seen."""


def settings_of(queue: Queue) -> str:
    """Return the spec of a queue, and the annotations by which people limit its use, as JSON."""
    said = {name: queue.metadata.annotations[name] for name in SETTINGS if name in queue.metadata.annotations}
    whole = orjson.dumps({**msgspec.to_builtins(queue.spec), **said}, option=orjson.OPT_SORT_KEYS)
    return whole.decode() if len(whole) <= MOST_SETTINGS else orjson.dumps({"spec": digest(whole.decode())}).decode()


BEFORE_THE_END: Final = 5
"""Seconds before the end of a minute at which the rows of the minute are written."""


class QueueSink(ListedSink):
    """A `Sink` of queues. `on_gone`: called with the name of a deleted queue."""

    _parents: dict[str, str] | None = None
    """The recorded parent of each queue, by name; None before the database was read."""

    _settings: dict[str, tuple[str, str]] | None = None
    """The name and the recorded settings of each queue, by uid; None before the database was read."""

    def __init__(
        self, database: Database, writer: RowTaker, now: Callable[[], float], *, on_gone: Callable[[str], None] = lambda _: None
    ) -> None:
        self._on_gone = on_gone
        self._database, self._writer, self._now = database, writer, now
        self._queues: dict[str, tuple[int, Queue]] = {}
        self._is_listed = False

    async def run(self) -> None:
        """Write the rows of all queues each minute, until cancelled."""
        while True:
            await asyncio.sleep((2 * MINUTE - BEFORE_THE_END - self._now() % MINUTE) % MINUTE or MINUTE)
            try:
                await self.write()
            except DatabaseUnavailable as error:
                log.warning("recorder.queues_not_written", error=str(error))

    async def write(self) -> None:
        """Write the rows of the present minute, once the queues are listed."""
        if not self._is_listed:
            return
        asked, now = asked_of_queues(await self._database.open_jobs()), int(self._now())
        for version, queue in list(self._queues.values()):
            for row in minute_facts(queue, asked, now):
                await self._writer.add(queue_minutes, version, row)

    async def take(self, record: Queue, version: int, now: int, *, is_deleted: bool) -> None:
        """Handle an added, updated or deleted queue."""
        await self._keep_settings(record.metadata, version, now, "" if is_deleted else settings_of(record))
        if is_deleted:
            self._queues.pop(record.metadata.uid, None)
            self._on_gone(record.metadata.name)
        else:
            self._queues[record.metadata.uid] = version, record
            await self._keep_parent(record, version, now)

    async def _keep_settings(self, queue: Meta, version: int, now: int, settings: str) -> None:
        """Record the settings of a queue if they have changed, the first ones since its creation. Empty: it was deleted."""
        if self._settings is None:
            rows = await self._database.newest(queue_settings, queue_settings.c.settings != "")
            self._settings = {row["uid"]: (row["name"], row["settings"]) for row in rows}
        known = self._settings.get(queue.uid)
        if (known[1] if known is not None else "") != settings:
            at = now if known is not None else seconds(queue.creation_timestamp) or now
            self._settings[queue.uid] = queue.name, settings
            row = {"uid": queue.uid, "at": at, "name": clipped(queue.name, 253), "settings": settings}
            await self._writer.add(queue_settings, version, row)

    async def _keep_parent(self, queue: Queue, version: int, now: int) -> None:
        """Record the parent of a queue if it has changed. The first one is valid from the beginning."""
        if self._parents is None:
            self._parents = {row["uid"]: row["parent"] for row in await self._database.newest(queue_parents)}
        name, parent = clipped(queue.metadata.name, 253), clipped(queue.spec.parent or ROOT, 253)
        if self._parents.get(name) != parent:
            self._parents[name] = parent
            await self._writer.add(queue_parents, version, {"uid": name, "at": now, "parent": parent})

    async def take_list(self, uids: set[str], since: int | None, began: int, now: int, version: int | None = None) -> None:  # noqa: ARG002 - a Sink
        """Handle a complete list: forget queues that are not in the list."""
        for uid in self._queues.keys() - uids:
            self._on_gone(self._queues.pop(uid)[1].metadata.name)
        for uid, (name, settings) in list((self._settings or {}).items()):
            if settings and uid not in uids:
                await self._keep_settings(Meta(name=name, uid=uid), version or 0, now, "")
        self._is_listed = True
