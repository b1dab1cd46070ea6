"""Timelines: when each pod of a Job was created, bound, ready and ended, and which pod was the slowest at each stage."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import datetime
from typing import Any, Final

from pyroclast.pictures.timeline import Lane, Span
from pyroclast.views.documents import Row
from pyroclast.views.readable import human_duration

STAGES: Final = (("boundSeconds", "placed"), ("startedSeconds", "started"), ("readySeconds", "ready"), ("endedSeconds", "ended"))


def timeline_rows(job: Mapping[str, Any], pods: Iterable[Mapping[str, Any]]) -> list[Row]:
    """Return a row for each pod, in the order of creation; all times are seconds since the creation of the Job."""
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
    """Return for each stage that several pods have reached the last of these pods, and its delay behind the first."""
    lines = []
    for field, word in STAGES:
        reached = sorted((row[field], row["name"]) for row in rows if row[field] is not None)
        if len(reached) > 1 and reached[-1][0] > reached[0][0]:
            behind = human_duration(reached[-1][0] - reached[0][0])
            lines.append(f"last {word}: {reached[-1][1]}, {behind} behind the first")
    return lines


def lanes(rows: Iterable[Row], now: int) -> list[Lane]:
    """Return the lane of each pod in the picture. An unfinished stage ends at `now`, in seconds since the creation of the Job."""
    return [Lane(row["name"], tuple(_spans(row, now))) for row in rows]


def _spans(row: Row, now: int) -> Iterable[Span]:
    created, bound, started, ended = (row[f"{name}Seconds"] for name in ("created", "bound", "started", "ended"))
    last = now if ended is None else ended
    reached = [
        (stage, begin) for stage, begin in (("waiting", created), ("starting", bound), ("running", started)) if begin is not None
    ]
    ends = [begin for _, begin in reached[1:]] + [last]
    return [Span(stage, begin, max(begin, end)) for (stage, begin), end in zip(reached, ends, strict=True)]
