"""The spans of Jobs and flows, made at their end from recorded times, in the trace that the annotation of a Job names.

Spans are sent before the row with the end is committed. A recorder that crashes in between sends the spans again after its
restart, with the same ids.
"""

from __future__ import annotations

import asyncio
import time
from collections import OrderedDict
from dataclasses import replace
from typing import Final

import structlog

from pyroclast.api import decisions
from pyroclast.api.records.flows import JobFlow
from pyroclast.api.records.groups import PodGroup
from pyroclast.api.records.jobs import Job
from pyroclast.runtime.traces import PastSpan, Traces, context_of, context_within, flow_identity
from pyroclast_recorder.database.batches import Batch, key_of, merged
from pyroclast_recorder.database.database import Database
from pyroclast_recorder.database.tables import FLOW_ENDED, PREPARED, SCHEDULED, Row, job_causes, job_phases, jobs, pods
from pyroclast_recorder.facts.pods import job_of
from pyroclast_recorder.facts.units import clipped, seconds
from pyroclast_recorder.following.sinks import Seen, group_rows, job_rows, owner_rows
from pyroclast_recorder.following.spans import JobHistory, spans_of

log = structlog.get_logger()

MOST_JOBS: Final = 20_000
MOST_UNSENT: Final = 10_000
RETRY_SECONDS: Final = 30.0

REMOVED: Final = "Removed"
"""The state of a Job or flow that was deleted before its end."""


class JobTracer:
    """Remembers the trace of each Job, and sends the spans of Jobs and flows at their end."""

    def __init__(self, database: Database, traces: Traces) -> None:
        self._database, self._traces = database, traces
        self._contexts: OrderedDict[str, str] = OrderedDict()
        self._flows: dict[tuple[str, int], PastSpan] = {}
        self._unsent: list[PastSpan] = []
        self._retry_at = 0.0

    def rows_of(self, job: Job, now: int, *, is_deleted: bool) -> Seen:
        """Return the rows of a Job, and remember its trace."""
        context = context_of(job.metadata.annotations)
        if context:
            self._contexts[job.metadata.uid] = context
            while len(self._contexts) > MOST_JOBS:
                self._contexts.popitem(last=False)
        return job_rows(job, now, is_deleted=is_deleted)

    def group_rows(self, group: PodGroup, now: int, *, is_deleted: bool) -> Seen:
        """Yield the rows of a PodGroup. For a traced PodGroup, also yield its creation and the decision that placed its pods."""
        yield from group_rows(group, now, is_deleted=is_deleted)
        job, made = job_of(group), seconds(group.metadata.creation_timestamp)
        if job is None or made is None or not context_of(group.metadata.annotations):
            return
        yield job_causes, None, {"job": job, "at": made, "name": PREPARED, "message": None}
        for each in group.status.conditions:
            at = seconds(each.last_transition_time)
            if each.type == SCHEDULED and each.message and at is not None:
                decision = decisions.parse(each.message)
                name = SCHEDULED if decision is None else clipped(f"{SCHEDULED} {decision.session}", 63)
                yield job_causes, None, {"job": job, "at": at, "name": name, "message": clipped(each.message)}

    def flow_rows(self, flow: JobFlow, now: int, *, is_deleted: bool) -> Seen:
        """Yield the row of a flow, and after its end the row that records that its span was sent."""
        yield from owner_rows(flow, now, is_deleted=is_deleted)
        meta = flow.metadata
        begin, completed = seconds(meta.creation_timestamp), seconds(flow.status.completion_time)
        ended = now if completed is None and is_deleted else completed
        if begin is None or ended is None:
            return
        state = REMOVED if completed is None else str(flow.status.state.phase)
        attributes = {"namespace": meta.namespace, "name": meta.name, "uid": meta.uid, "state": state}
        parent, identity = context_of(meta.annotations), flow_identity(meta.uid)
        self._flows[meta.uid, ended] = PastSpan("flow.run", parent, identity, min(begin, ended), ended, attributes)
        yield job_phases, None, {"job": meta.uid, "at": ended, "name": FLOW_ENDED, "message": None}

    async def send_ends(self, batch: Batch) -> None:
        """Send the spans of Jobs and flows that end with a batch.

        An unavailable collector is tried again after a pause, so that the collector delays batches by seconds at most.
        """
        await self._end_jobs(batch)
        await self._end_flows(batch)
        if not self._unsent or time.monotonic() < self._retry_at:
            return
        if await asyncio.to_thread(self._traces.send, tuple(self._unsent)):
            self._unsent.clear()
            return
        self._retry_at = time.monotonic() + RETRY_SECONDS
        if len(self._unsent) > MOST_UNSENT:
            log.warning("recorder.spans_dropped", count=len(self._unsent) - MOST_UNSENT)
            del self._unsent[:-MOST_UNSENT]

    async def _end_jobs(self, batch: Batch) -> None:
        """Add the spans of Jobs that end with a batch. A Job that is deleted before its end ends with its deletion."""
        ending = {row["uid"]: row for row in batch.rows.get(jobs, {}).values() if _end_of(row) and row["uid"] in self._contexts}
        if not ending:
            return
        known = await self._database.jobs_of(list(ending))
        for uid, row in ending.items():
            before = known.get(uid)
            whole = dict(row) if before is None else merged(jobs, before, row)
            is_told = before is not None and before["removed"] is not None and whole["ended"] is None
            if before is not None and (is_told or _end_of(before) == _end_of(whole)):
                continue
            if whole["ended"] is None:
                whole |= {"ended": whole["removed"], "phase": REMOVED}
            since = None if before is None else before["ended"]
            self._unsent += spans_of(whole, self._contexts[uid], await self._told(uid, batch), since)

    async def _end_flows(self, batch: Batch) -> None:
        """Add the spans of flows that end with a batch. A resumed flow gets a second span, which begins at its earlier end."""
        rows = [row for row in batch.rows.get(job_phases, {}).values() if (row["job"], row["at"]) in self._flows]
        for row in sorted((each for each in rows if each["name"] == FLOW_ENDED), key=lambda each: int(each["at"])):
            uid, at = row["job"], row["at"]
            known = (await self._database.rows_of_job(uid))[job_phases]
            before = {each["at"] for each in known} | {each["at"] for each in rows if each["job"] == uid and each["at"] < at}
            span = self._flows.pop((uid, at))
            if at in before:
                continue
            if before:
                since, parent = max(before), context_within(span.identity, span.parent)
                span = replace(span, parent=parent, identity=f"{span.identity} {since}", begin=since)
            self._unsent.append(span)

    async def _told(self, uid: str, batch: Batch) -> JobHistory:
        """Return the rows of a Job from the database, merged with the rows in the batch."""
        found = {
            table: {key_of(table, row): row for row in rows} for table, rows in (await self._database.rows_of_job(uid)).items()
        }
        for table, known in found.items():
            for key, row in batch.rows.get(table, {}).items():
                if row["job"] == uid:
                    known[key] = merged(table, known[key], row) if key in known else row
        return JobHistory(*(list(found[table].values()) for table in (job_phases, job_causes, pods)))


def _end_of(row: Row) -> int | None:
    ended: int | None = row["ended"]
    return row["removed"] if ended is None else ended
