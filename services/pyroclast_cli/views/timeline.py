"""The command `vcctl timeline`: when each pod of a Job was created, placed, ready and ended.

The command also shows the slowest pod of each stage.
"""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime
from typing import Any, Final

import orjson

from pyroclast.api import keys
from pyroclast.api.types import PODS
from pyroclast.pictures.timeline import Lane, timeline
from pyroclast.views.documents import Row
from pyroclast.views.pods import lanes, slowest_lines, timeline_rows
from pyroclast.views.readable import human_duration
from pyroclast_cli.context import Context
from pyroclast_cli.flags import Flag
from pyroclast_cli.tree import Leaf
from pyroclast_cli.views.output import FORMATS, TABLE_FLAGS, Column, Table
from pyroclast_cli.views.scope import NAMESPACE, named_job
from pyroclast_cli.views.watching import WATCH, show


def _after(seconds: int) -> str:
    return f"+{human_duration(seconds)}"


COLUMNS: Final = (
    Column("POD", "name"),
    Column("NODE", "node"),
    Column("CREATED", "createdSeconds", _after),
    Column("PLACED", "boundSeconds", _after),
    Column("STARTED", "startedSeconds", _after),
    Column("READY", "readySeconds", _after),
    Column("ENDED", "endedSeconds", _after),
    Column("RESTARTS", "restarts"),
    Column("PHASE", "phase"),
)


def trace_events(pods: Iterable[Lane]) -> list[dict[str, Any]]:
    """Return the timeline in the Trace Event Format of Perfetto and Chrome. Times are in microseconds."""
    return [
        {
            "name": span.stage,
            "ph": "X",
            "pid": 1,
            "tid": lane.name,
            "ts": int(span.begin * 1e6),
            "dur": int((span.end - span.begin) * 1e6),
        }
        for lane in pods
        for span in lane.spans
    ]


async def _timeline(context: Context) -> None:
    key, job = await named_job(context)

    async def read() -> list[Row]:
        pods, _ = await context.client.list(PODS, key.namespace, label_selector=f"{keys.JOB_NAME}={key.name}")
        return timeline_rows(job, pods)

    async def table() -> Table:
        rows = await read()
        return Table("PodTimeline", COLUMNS, rows, "pod", "The Job has no pods", notes=slowest_lines(rows))

    form = context.text("output")
    if form in {"svg", "trace"}:
        rows = await read()
        begin = datetime.fromisoformat(job["metadata"]["creationTimestamp"]).timestamp()
        drawn = lanes(rows, max(0, int(context.client.now() - begin)))
        context.say(timeline(str(key), drawn).document() if form == "svg" else orjson.dumps(trace_events(drawn)).decode())
        return
    await show(context, table, PODS, namespace=key.namespace)


TIMELINE: Final = Leaf(
    "timeline",
    "show when each pod of a Job was made, placed, started, ready and over",
    _timeline,
    (NAMESPACE, Flag("output", "o", "table", f"{FORMATS}, svg, trace"), *TABLE_FLAGS[1:], WATCH),
    takes="NAME",
    is_ours=True,
)
