"""The spans of a Job, made at its end from recorded times, in the trace that the Job carries.

They are sent before the row that says so is committed. A recorder that dies in between sends them again, with the same ids.
"""

from __future__ import annotations

import asyncio
import time
from collections import OrderedDict
from typing import Final

import structlog

from pyroclast.api.records.groups import PodGroup
from pyroclast.api.records.jobs import Job
from pyroclast.runtime.traces import PastSpan, Traces, context_of
from pyroclast_recorder.database.batches import Batch
from pyroclast_recorder.database.database import Database
from pyroclast_recorder.database.merging import key_of, merged
from pyroclast_recorder.database.tables import PREPARED, SCHEDULED, job_causes, job_phases, jobs, pods
from pyroclast_recorder.facts.jobs import owner_of
from pyroclast_recorder.facts.units import clipped, seconds
from pyroclast_recorder.following.sinks import Seen, group_rows, job_rows
from pyroclast_recorder.following.spans import Told, spans_of

__all__ = ["JobTracer"]

log = structlog.get_logger()

MOST_JOBS: Final = 20_000
MOST_UNSENT: Final = 10_000
RETRY_SECONDS: Final = 30.0


class JobTracer:
    """Knows which trace each Job belongs to, and sends what became of it.

    Args:
        database: what was known of a Job before.
        traces: where spans go.
    """

    def __init__(self, database: Database, traces: Traces) -> None:
        self._database, self._traces = database, traces
        self._contexts: OrderedDict[str, str] = OrderedDict()
        self._unsent: list[PastSpan] = []
        self._retry_at = 0.0

    def rows_of(self, job: Job, now: int, *, is_deleted: bool) -> Seen:
        """The rows of a Job, whose trace is noted."""
        context = context_of(job.metadata.annotations)
        if context:
            self._contexts[job.metadata.uid] = context
            while len(self._contexts) > MOST_JOBS:
                self._contexts.popitem(last=False)
        return job_rows(job, now, is_deleted=is_deleted)

    def group_rows(self, group: PodGroup, now: int, *, is_deleted: bool) -> Seen:
        """The rows of a PodGroup, and of a traced one when it was made and by which decision its pods were placed."""
        yield from group_rows(group, now, is_deleted=is_deleted)
        job, made = owner_of(group), seconds(group.metadata.creation_timestamp)
        if job is None or made is None or not context_of(group.metadata.annotations):
            return
        yield job_causes, None, {"job": job, "at": made, "name": PREPARED, "message": None}
        for each in group.status.conditions:
            at = seconds(each.last_transition_time)
            if each.type == SCHEDULED and each.message and at is not None:
                yield job_causes, None, {"job": job, "at": at, "name": SCHEDULED, "message": clipped(each.message)}

    async def send_ends(self, batch: Batch) -> None:
        """Send the spans of Jobs that end with a batch.

        A collector that is away is asked again after a while, so that it holds up the batches by seconds at most.
        """
        ending = {row["uid"]: row for row in batch.rows.get(jobs, {}).values() if row["ended"] and row["uid"] in self._contexts}
        if ending:
            known = await self._database.jobs_of(list(ending))
            for uid, row in ending.items():
                before = known.get(uid)
                if before is None or before["ended"] != row["ended"]:
                    whole = row if before is None else merged(jobs, before, row)
                    since = None if before is None else before["ended"]
                    self._unsent += spans_of(whole, self._contexts[uid], await self._told(uid, batch), since)
        if not self._unsent or time.monotonic() < self._retry_at:
            return
        if await asyncio.to_thread(self._traces.send, tuple(self._unsent)):
            self._unsent.clear()
            return
        self._retry_at = time.monotonic() + RETRY_SECONDS
        if len(self._unsent) > MOST_UNSENT:
            log.warning("recorder.spans_dropped", count=len(self._unsent) - MOST_UNSENT)
            del self._unsent[:-MOST_UNSENT]

    async def _told(self, uid: str, batch: Batch) -> Told:
        """What the database and the batch tell of a Job."""
        found = {
            table: {key_of(table, row): row for row in rows} for table, rows in (await self._database.rows_of_job(uid)).items()
        }
        for table, known in found.items():
            for key, row in batch.rows.get(table, {}).items():
                if row["job"] == uid:
                    known[key] = merged(table, known[key], row) if key in known else row
        return Told(*(list(found[table].values()) for table in (job_phases, job_causes, pods)))
