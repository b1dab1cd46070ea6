"""The long spans of a Job, made at its end from recorded times, in the trace that the Job carries.

They are sent before the row that says so is committed. A recorder that dies in between sends them again, with the same ids.
"""

from __future__ import annotations

import asyncio
import time
from collections import OrderedDict
from itertools import pairwise
from typing import Final

import structlog

from pyroclast.api.records.jobs import Job
from pyroclast.runtime.traces import PastSpan, Traces, context_of
from pyroclast_recorder.database.batches import Batch
from pyroclast_recorder.database.database import Database
from pyroclast_recorder.database.merging import merged
from pyroclast_recorder.database.tables import Row, jobs
from pyroclast_recorder.following.sinks import Seen, job_rows

__all__ = ["JobTracer", "spans_of"]

log = structlog.get_logger()

MOST_JOBS: Final = 20_000
MOST_UNSENT: Final = 10_000
RETRY_SECONDS: Final = 30.0
STEPS: Final = (("queue.wait", "created"), ("gang.wait", "let_in"), ("pods.start", "placed"), ("job.run", "started"))
"""Each span begins at the time of its column and ends where the next begins, so that there is no hole."""


def spans_of(row: Row, context: str) -> list[PastSpan]:
    """The spans of a Job that ended, from its row. A step that nobody saw is part of the one before."""
    begins = [(name, row[column]) for name, column in STEPS if row.get(column) is not None]
    steps: list[tuple[str, float]] = []
    for name, at in begins:
        steps.append((name, min(row["ended"], max(at, steps[-1][1] if steps else at))))
    whole = [*steps, ("job.end", row["ended"])]
    attributes = {"namespace": row["namespace"], "name": row["name"], "uid": row["uid"], "queue": row["queue"] or ""}

    def span(name: str, begin: float, end: float, **more: str | int) -> PastSpan:
        identity = f"{row['uid']} {name} {row['ended']}"  # a Job that is resumed ends once more, with spans of its own
        return PastSpan(name, context, identity, begin, end, {**attributes, **more})

    found = [span(name, begin, end) for (name, begin), (_, end) in pairwise(whole)]
    return [*found, span("job.end", row["ended"], row["ended"], state=row["phase"] or "", retries=row["retries"] or 0)]


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
                    self._unsent += spans_of(row if before is None else merged(jobs, before, row), self._contexts[uid])
        if not self._unsent or time.monotonic() < self._retry_at:
            return
        if await asyncio.to_thread(self._traces.send, tuple(self._unsent)):
            self._unsent.clear()
            return
        self._retry_at = time.monotonic() + RETRY_SECONDS
        if len(self._unsent) > MOST_UNSENT:
            log.warning("recorder.spans_dropped", count=len(self._unsent) - MOST_UNSENT)
            del self._unsent[:-MOST_UNSENT]
