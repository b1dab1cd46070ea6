"""The rows that the objects of each kind make, and the sinks of Jobs, pods, PodGroups and owners.

The sink of PodGroups makes rows of their Jobs, and a row whenever the reserved nodes of a PodGroup change.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Final, Generic, TypeVar

import msgspec
import orjson
import structlog
from sqlalchemy import Table

from pyroclast.api import keys
from pyroclast.api.pod_groups_on_pods import group_of
from pyroclast.api.records.groups import PodGroup
from pyroclast.api.records.jobs import Command, Job
from pyroclast.api.records.meta import Record
from pyroclast.api.records.native_groups import CompositePodGroup, NativePodGroup
from pyroclast.api.records.pods import Pod
from pyroclast_recorder.database.batches import Cursor
from pyroclast_recorder.database.database import Database
from pyroclast_recorder.database.tables import (
    Row,
    commands,
    composites,
    gaps,
    job_alikes,
    job_causes,
    job_phases,
    jobs,
    owners,
    pods,
    predictions,
    reservations,
)
from pyroclast_recorder.facts.jobs import (
    Owner,
    alike_facts,
    cause_facts,
    command_facts,
    group_facts,
    job_facts,
    owner_facts,
    phase_facts,
    prediction_facts,
)
from pyroclast_recorder.facts.native_groups import composite_facts, native_causes, native_facts, native_phases, native_prediction
from pyroclast_recorder.facts.pods import is_ours, pod_facts
from pyroclast_recorder.facts.units import clipped
from pyroclast_recorder.following.writer import RowTaker

log = structlog.get_logger()

T = TypeVar("T", bound=Record)


NO_NODES: Final = "[]"
"""The value for a PodGroup without reserved nodes, as JSON."""


class _Lock(msgspec.Struct, frozen=True):
    node: str


class _Reservation(msgspec.Struct, frozen=True):
    locks: tuple[_Lock, ...] = ()


def kept_nodes(group: PodGroup, *, is_deleted: bool) -> str:
    """Return the names of the reserved nodes as JSON. An invalid annotation reserves no nodes."""
    text = group.metadata.annotations.get(keys.RESERVATION, "")
    if not text or is_deleted:
        return NO_NODES
    try:
        locks = msgspec.json.decode(text, type=_Reservation).locks
    except (msgspec.MsgspecError, RecursionError):
        return NO_NODES
    return orjson.dumps(sorted({clipped(lock.node, 253) for lock in locks})).decode()


Seen = Iterable[tuple[Table, int | None, Row]]
"""Rows with their table and their version. None as version means the version of the object."""


def job_rows(job: Job, now: int, *, is_deleted: bool) -> Seen:
    """Yield the rows of a Job."""
    yield jobs, None, job_facts(job, now, is_deleted=is_deleted)
    for row in phase_facts(job):
        yield job_phases, None, row


def group_rows(group: PodGroup, now: int, *, is_deleted: bool) -> Seen:  # noqa: ARG001 - one signature for all kinds
    """Yield the rows of a PodGroup about its Job. The version 0 gives precedence to values from the Job itself."""
    row = group_facts(group, now)
    if row is not None:
        if row["let_in"] is not None:
            yield jobs, 0, row
        yield from _if_any(job_alikes, alike_facts(group))
        yield from _if_any(predictions, prediction_facts(group))
        for cause in cause_facts(group):
            yield job_causes, None, cause


def owner_rows(owner: Owner, now: int, *, is_deleted: bool) -> Seen:
    """Yield the row of an owner of Jobs."""
    yield owners, None, owner_facts(owner, now, is_deleted=is_deleted)


def command_rows(command: Command, now: int, *, is_deleted: bool) -> Seen:  # noqa: ARG001 - one signature for all kinds
    """Yield the row of a Command."""
    yield commands, None, command_facts(command)


def native_rows(group: NativePodGroup, now: int, *, is_deleted: bool) -> Seen:
    """Yield the rows of a native PodGroup, in the tables of Jobs."""
    row = native_facts(group, now, is_deleted=is_deleted)
    if row is not None:
        yield jobs, None, row
        for phase in native_phases(group):
            yield job_phases, None, phase
        yield from _if_any(predictions, native_prediction(group))
        for cause in native_causes(group):
            yield job_causes, None, cause


def composite_rows(group: CompositePodGroup, now: int, *, is_deleted: bool) -> Seen:
    """Yield the rows of a CompositePodGroup."""
    row = composite_facts(group, now, is_deleted=is_deleted)
    if row is not None:
        yield composites, None, row
        yield from _if_any(predictions, native_prediction(group))


def pod_rows(schedulers: frozenset[str], domain_of: Callable[[str | None], str | None]) -> Callable[..., Seen]:
    """Return a function that makes the row of a pod, if the pod belongs to a Job or to one of `schedulers`.

    `domain_of`: returns the HyperNode of a node, by name.
    """

    def rows(pod: Pod, now: int, *, is_deleted: bool) -> Seen:
        if is_ours(pod, schedulers):
            facts = pod_facts(pod, now, is_deleted=is_deleted)
            yield pods, None, {**facts, "domain": domain_of(facts["node"])}

    return rows


def with_groups(of_pods: Callable[..., Seen], of_groups: Callable[..., Seen]) -> Callable[..., Seen]:
    """Return a function that makes the rows of a pod, and those of the group that it describes if its Job has no PodGroup."""

    def rows(pod: Pod, now: int, *, is_deleted: bool) -> Seen:
        yield from of_pods(pod, now, is_deleted=is_deleted)
        if (group := group_of(pod)) is not None:
            yield from of_groups(group, now, is_deleted=is_deleted)

    return rows


def _if_any(table: Table, row: Row | None) -> Seen:
    return () if row is None else ((table, None, row),)


class KindSink(Generic[T]):
    """A `Sink` that makes rows of the objects of one kind.

    `rows`: makes the rows of an object. `table`: the table whose rows end when the objects of this kind are deleted; None without
    such a table. `kind`: the value of the column `kind` in the rows of `table`; None for Jobs and without such a column.
    """

    def __init__(
        self,
        database: Database,
        writer: RowTaker,
        rows: Callable[..., Seen],
        table: Table | None,
        on_gap: Callable[[str, float], None],
        *,
        kind: str | None = None,
    ) -> None:
        self._database, self._writer, self._rows, self._table, self._on_gap = database, writer, rows, table, on_gap
        self._kind_of_rows = kind

    async def take(self, record: T, version: int, now: int, *, is_deleted: bool) -> None:
        """Handle an added, updated or deleted object."""
        for table, own, row in list(self._rows(record, now, is_deleted=is_deleted)):
            await self._writer.add(table, version if own is None else own, row)

    async def take_list(self, uids: set[str], since: int | None, began: int, now: int, version: int | None = None) -> None:
        """Handle a complete list: unlisted objects are gone, and listed objects existed when the list began.

        An object that was seen in a larger version than the list was created after it.
        """
        if self._table is None:
            return
        await self._writer.flushed()
        for uid, row in (await self._database.still_there(self._table, self._kind_of_rows)).items():
            if version is not None and row["version"] > version:
                continue
            lives = "released_high" in row and row["released_high"] is None
            if uid in uids:
                told: dict[str, int | None] = {"released_low": began} if lives else {}
            else:
                told = {"removed": now, "gone": version, **({"released_low": since, "released_high": now} if lives else {})}
            if told:
                await self._writer.add(self._table, 0, {"uid": row["uid"], **told})

    async def tell_gap(self, cursor: Cursor, now: int, why: str) -> None:
        """Record a gap: the events between `cursor` and `now` are lost."""
        self._on_gap(cursor.kind, now - cursor.at)
        await self._writer.add(gaps, 0, {"kind": cursor.kind, "since": cursor.at, "until": now, "why": why})

    async def move(self, cursor: Cursor) -> None:
        """Set the position up to which the rows include all events."""
        self._writer.move(cursor)


class GroupSink(KindSink[PodGroup]):
    """A `Sink` of PodGroups."""

    _kept: dict[str, str] | None = None
    """The reserved nodes of each PodGroup as JSON, by uid; None before the database was read."""

    async def take(self, record: PodGroup, version: int, now: int, *, is_deleted: bool) -> None:
        """Handle an added, updated or deleted PodGroup."""
        await super().take(record, version, now, is_deleted=is_deleted)
        await self._keep(record.metadata.uid, version, now, kept_nodes(record, is_deleted=is_deleted))

    async def take_list(self, uids: set[str], since: int | None, began: int, now: int, version: int | None = None) -> None:
        """Handle a complete list: PodGroups that are not in the list have no reserved nodes."""
        await super().take_list(uids, since, began, now, version)
        for uid in (await self._known()).keys() - uids:
            await self._keep(uid, 0, now, NO_NODES)

    async def _keep(self, uid: str, version: int, now: int, nodes: str) -> None:
        known = await self._known()
        if known.get(uid, NO_NODES) == nodes:
            return
        if nodes == NO_NODES:
            del known[uid]
        else:
            known[uid] = nodes
        await self._writer.add(reservations, version, {"uid": uid, "at": now, "nodes": nodes})

    async def _known(self) -> dict[str, str]:
        if self._kept is None:
            rows = await self._database.newest(reservations, reservations.c.nodes != NO_NODES)
            self._kept = {row["uid"]: row["nodes"] for row in rows}
        return self._kept
