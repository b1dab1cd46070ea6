"""`vcctl timeline`: when each pod of a Job was created, placed, ready and ended, and which was the slowest at each stage."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import datetime
from typing import Any, Final

import orjson

from pyroclast.api import keys
from pyroclast.api.types import PODS
from pyroclast.pictures.timeline import Lane, Span, timeline
from pyroclast_cli.context import Context
from pyroclast_cli.flags import Flag
from pyroclast_cli.human_durations import human_duration
from pyroclast_cli.tree import Leaf
from pyroclast_cli.views.output import FORMATS, TABLE_FLAGS, Column, Row, Table, write
from pyroclast_cli.views.scope import NAMESPACE, named_job

__all__ = ["TIMELINE", "lanes", "slowest_lines", "timeline_rows", "trace_events"]

STAGES: Final = (("boundSeconds", "placed"), ("startedSeconds", "started"), ("readySeconds", "ready"), ("endedSeconds", "ended"))


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


def timeline_rows(job: Mapping[str, Any], pods: Iterable[Mapping[str, Any]]) -> list[Row]:
    """A row per pod, in the order of their creation; all times are seconds since the Job was created."""
    begin = datetime.fromisoformat(job["metadata"]["creationTimestamp"])

    def since(timestamp: str | None) -> int | None:
        return None if not timestamp else max(0, int((datetime.fromisoformat(timestamp) - begin).total_seconds()))

    rows = [_row(pod, since) for pod in pods]
    return sorted(rows, key=lambda row: (row["createdSeconds"] or 0, row["name"]))


def _row(pod: Mapping[str, Any], since: Any) -> Row:  # noqa: ANN401 - a local function
    metadata, status = pod["metadata"], pod.get("status") or {}
    conditions = {
        each["type"]: each.get("lastTransitionTime") for each in status.get("conditions") or () if each.get("status") == "True"
    }
    containers = status.get("containerStatuses") or ()
    states = [(each.get("state") or {}) for each in containers]
    starts = [(state.get("running") or state.get("terminated") or {}).get("startedAt") for state in states]
    ends = [(state.get("terminated") or {}).get("finishedAt") for state in states]
    return {
        "name": metadata["name"],
        "node": (pod.get("spec") or {}).get("nodeName"),
        "createdSeconds": since(metadata.get("creationTimestamp")),
        "boundSeconds": since(conditions.get("PodScheduled")),
        "startedSeconds": since(max(filter(None, starts), default=None)),
        "readySeconds": since(conditions.get("Ready")),
        "endedSeconds": since(max(filter(None, ends), default=None)) if ends and all(ends) else None,
        "restarts": sum(int(each.get("restartCount", 0)) for each in containers),
        "phase": status.get("phase"),
    }


def slowest_lines(rows: Iterable[Row]) -> list[str]:
    """For each stage that several pods have reached, the last of them and how far it is behind the first."""
    lines = []
    for field, word in STAGES:
        reached = sorted((row[field], row["name"]) for row in rows if row[field] is not None)
        if len(reached) > 1 and reached[-1][0] > reached[0][0]:
            behind = human_duration(reached[-1][0] - reached[0][0])
            lines.append(f"last {word}: {reached[-1][1]}, {behind} behind the first")
    return lines


def lanes(rows: Iterable[Row], now: int) -> list[Lane]:
    """What the picture shows of each pod. A stage that has not ended reaches to `now`, in seconds since the Job was created."""
    return [Lane(row["name"], tuple(_spans(row, now))) for row in rows]


def _spans(row: Row, now: int) -> Iterable[Span]:
    created, bound, started, ended = (row[f"{name}Seconds"] for name in ("created", "bound", "started", "ended"))
    last = now if ended is None else ended
    reached = [
        (stage, begin) for stage, begin in (("waiting", created), ("starting", bound), ("running", started)) if begin is not None
    ]
    ends = [begin for _, begin in reached[1:]] + [last]
    return [Span(stage, begin, max(begin, end)) for (stage, begin), end in zip(reached, ends, strict=True)]


def trace_events(pods: Iterable[Lane]) -> list[dict[str, Any]]:
    """The same in the Trace Event Format, which Perfetto and Chrome read; times are microseconds."""
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
    pods, _ = await context.client.list(PODS, key.namespace, label_selector=f"{keys.JOB_NAME}={key.name}")
    rows = timeline_rows(job, pods)
    form = context.text("output")
    if form in {"svg", "trace"}:
        begin = datetime.fromisoformat(job["metadata"]["creationTimestamp"]).timestamp()
        drawn = lanes(rows, max(0, int(context.client.now() - begin)))
        context.say(timeline(str(key), drawn).rstrip() if form == "svg" else orjson.dumps(trace_events(drawn)).decode())
        return
    write(context, Table("PodTimeline", COLUMNS, rows, "pod", "The Job has no pods"))
    if form in {"table", "wide", ""}:
        for line in slowest_lines(rows):
            context.say(line)


TIMELINE: Final = Leaf(
    "timeline",
    "show when each pod of a Job was made, placed, started, ready and over",
    _timeline,
    (NAMESPACE, Flag("output", "o", "table", f"{FORMATS}, svg, trace"), *TABLE_FLAGS[1:]),
    takes="NAME",
    is_ours=True,
)
