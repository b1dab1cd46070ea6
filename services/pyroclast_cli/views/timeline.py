"""The commands `vcctl timeline` and `vcctl tree`: the pods of a Job over time, and the entries of a flow."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime
from typing import Any, Final

import orjson

from pyroclast.api import keys
from pyroclast.api.types import JOB_FLOWS, JOBS, PODS, Key
from pyroclast.pictures.timeline import Lane, timeline
from pyroclast.views.contract import Row, document
from pyroclast.views.flows import draw_flow, flow_rows, flow_tree_lines
from pyroclast.views.readable import human_duration
from pyroclast.views.rows import lanes, slowest_lines, timeline_rows
from pyroclast_cli.flags import Context, Failure, Flag
from pyroclast_cli.tree import OwnLeaf
from pyroclast_cli.views.output import FORMATS, TABLE_FLAGS, Column, Table, Whole, columns
from pyroclast_cli.views.scope import NAMESPACE, existing, named_job, namespace_of, views_in
from pyroclast_cli.views.watching import WATCH, show

KINDS: Final = frozenset({"", "flow", "jobflow", "jf", "jobflows"})


async def _tree(context: Context) -> None:
    if len(context.arguments) != 1:
        raise Failure(f"name one flow, as NAME or flow/NAME; there are {len(context.arguments)} names")
    kind, _, name = context.arguments[0].rpartition("/")
    if kind.lower() not in KINDS or not name:
        raise Failure(f'"{context.arguments[0]}" is no flow; name it as NAME or flow/NAME')
    key = Key(namespace_of(context), name)
    if context.text("output") == "svg":
        context.say(draw_flow(str(key), (await _read(context, key))[1]).document())
        return

    async def read() -> Whole:
        flow, rows = await _read(context, key)
        phase = ((flow.get("status") or {}).get("state") or {}).get("phase")
        metadata = {"namespace": key.namespace, "name": key.name}
        whole = document("FlowTree", {"metadata": metadata, "phase": phase, "entries": rows})
        return Whole(whole, flow_tree_lines(flow, rows), f"jobflow.flow.volcano.sh/{key.name}", rows)

    await show(context, read, JOB_FLOWS, JOBS, namespace=key.namespace)


async def _read(context: Context, key: Key) -> tuple[dict[str, Any], list[Row]]:
    """Return the flow and a row for each of its entries."""
    flow = await existing(context, JOB_FLOWS, key, f"JobFlow {key}")
    jobs = await views_in(context.client, key.namespace)
    codes = {each.name: str(each.cause.code) for each in jobs if each.cause is not None}
    return flow, list(flow_rows(flow, context.client.now(), codes))


TREE: Final = OwnLeaf(
    "tree",
    "show the entries of a flow below their dependencies",
    _tree,
    (NAMESPACE, Flag("output", "o", "table", f"{FORMATS}, svg"), WATCH),
    takes="FLOW",
)


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
    *columns("restarts", "phase"),
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


TIMELINE: Final = OwnLeaf(
    "timeline",
    "show when each pod of a Job was created, scheduled, started, ready, finished",
    _timeline,
    (NAMESPACE, Flag("output", "o", "table", f"{FORMATS}, svg, trace"), *TABLE_FLAGS[1:], WATCH),
    takes="NAME",
)
