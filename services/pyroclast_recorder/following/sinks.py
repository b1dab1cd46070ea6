"""What becomes of the objects that are seen: rows, by kind."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Generic, TypeVar

import structlog
from sqlalchemy import Table

from pyroclast.api.records.groups import PodGroup
from pyroclast.api.records.jobs import Job
from pyroclast.api.records.meta import Record
from pyroclast.api.records.native_groups import CompositePodGroup, NativePodGroup
from pyroclast.api.records.pods import Pod
from pyroclast_recorder.database.batches import Cursor
from pyroclast_recorder.database.database import Database
from pyroclast_recorder.database.tables import Row, composites, gaps, job_alikes, job_causes, job_phases, jobs, pods, predictions
from pyroclast_recorder.facts.composites import composite_facts
from pyroclast_recorder.facts.jobs import alike_facts, cause_facts, group_facts, job_facts, phase_facts
from pyroclast_recorder.facts.native_groups import native_causes, native_facts, native_phases, native_prediction
from pyroclast_recorder.facts.pods import is_ours, pod_facts
from pyroclast_recorder.facts.predictions import prediction_facts
from pyroclast_recorder.following.writer import RowTaker

__all__ = ["KindSink", "Seen", "composite_rows", "group_rows", "job_rows", "native_rows", "pod_rows"]

log = structlog.get_logger()

T = TypeVar("T", bound=Record)

Seen = Iterable[tuple[Table, int | None, Row]]
"""Rows with the table that they belong to; the version is that of the object, or the given one."""


def job_rows(job: Job, now: int, *, is_deleted: bool) -> Seen:
    """The rows of a Job."""
    yield jobs, None, job_facts(job, now, is_deleted=is_deleted)
    for row in phase_facts(job):
        yield job_phases, None, row


def group_rows(group: PodGroup, now: int, *, is_deleted: bool) -> Seen:  # noqa: ARG001 - all kinds are asked alike
    """What a PodGroup says of its Job; the Job itself has the last word on what both say."""
    row = group_facts(group, now)
    if row is not None:
        yield jobs, 0, row
        alike = alike_facts(group)
        if alike is not None:
            yield job_alikes, None, alike
        prediction = prediction_facts(group)
        if prediction is not None:
            yield predictions, None, prediction
        for cause in cause_facts(group):
            yield job_causes, None, cause


def native_rows(group: NativePodGroup, now: int, *, is_deleted: bool) -> Seen:
    """The rows of a PodGroup of Kubernetes itself, which are those of a Job."""
    row = native_facts(group, now, is_deleted=is_deleted)
    if row is not None:
        yield jobs, None, row
        for phase in native_phases(group):
            yield job_phases, None, phase
        prediction = native_prediction(group)
        if prediction is not None:
            yield predictions, None, prediction
        for cause in native_causes(group):
            yield job_causes, None, cause


def composite_rows(group: CompositePodGroup, now: int, *, is_deleted: bool) -> Seen:
    """The row of a CompositePodGroup."""
    row = composite_facts(group, now, is_deleted=is_deleted)
    if row is not None:
        yield composites, None, row


def pod_rows(schedulers: frozenset[str], domain_of: Callable[[str | None], str | None]) -> Callable[..., Seen]:
    """Makes the rows of a pod, if it is of ours; `domain_of`: the HyperNode that a node is in."""

    def rows(pod: Pod, now: int, *, is_deleted: bool) -> Seen:
        if is_ours(pod, schedulers):
            facts = pod_facts(pod, now, is_deleted=is_deleted)
            yield pods, None, {**facts, "domain": domain_of(facts["node"])}

    return rows


class KindSink(Generic[T]):
    """Takes what is seen of one kind.

    Args:
        database: asked which rows have nobody's word of their end.
        writer: takes the rows.
        rows: makes them from an object.
        table: whose rows end with the objects of this kind, if there is one.
        on_gap: told the kind and the seconds of what could not be seen.
        kind: which rows of that table these are; None: those of Jobs, or all.
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
        """An object was seen. One whose rows cannot be made is left out, and said in the log."""
        try:
            found = list(self._rows(record, now, is_deleted=is_deleted))
        except (ValueError, TypeError, OverflowError):
            log.exception("recorder.left_out", key=str(record.key))
            return
        for table, own, row in found:
            await self._writer.add(table, version if own is None else own, row)

    async def take_list(self, uids: set[str], since: int | None, began: int, now: int) -> None:
        """The list is complete: who is not in it has ended, who is in it was there when it began."""
        if self._table is None:
            return
        await self._writer.flushed()
        for uid, row in (await self._database.still_there(self._table, self._kind_of_rows)).items():
            told = _at_list(self._table, uid in uids, since, began, now)
            if told:
                await self._writer.add(self._table, 0, {"uid": row["uid"], **told})

    async def tell_gap(self, cursor: Cursor, now: int, why: str) -> None:
        """Nobody can see any more what happened between the cursor and now."""
        self._on_gap(cursor.kind, now - cursor.at)
        await self._writer.add(gaps, 0, {"kind": cursor.kind, "since": cursor.at, "until": now, "why": why})

    async def move(self, cursor: Cursor) -> None:
        """All that was taken reaches to the cursor."""
        self._writer.move(cursor)


def _at_list(table: Table, is_listed: bool, since: int | None, began: int, now: int) -> dict[str, int | None]:
    """What a list says of a row that was not known to have ended."""
    if table is pods:
        return {"released_low": began} if is_listed else {"released_low": since, "released_high": now}
    return {} if is_listed else {"removed": now}
