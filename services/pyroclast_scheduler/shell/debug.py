"""The complete state on which sessions decide, as JSON, to find out why a job waits."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from io import BytesIO
from typing import Any

import orjson

from pyroclast_scheduler.cache.cache import Cache
from pyroclast_scheduler.model.snapshot import Snapshot
from pyroclast_scheduler.model.tasks import TaskStatus
from pyroclast_scheduler.replay.state import State, encoded


async def page(cache: Cache, state: State) -> tuple[str, bytes]:
    """Return the page `/debug/snapshot`, made in a thread. Its field `replay` is input of `pyroclast_scheduler replay`."""
    return "application/json", await asyncio.to_thread(_body, cache.view(), cache.problems, state)


def _body(snapshot: Snapshot, problems: Mapping[str, str], state: State) -> bytes:
    body = BytesIO()  # returns its content without a copy: copying a large page would block the other threads
    picture = orjson.dumps(_picture(snapshot, problems), option=orjson.OPT_INDENT_2)
    body.write(picture.removesuffix(b"\n}") + b',\n  "replay": ')
    for piece in encoded(state):
        body.write(piece)
    body.write(b"\n}\n")
    return body.getvalue()


def _picture(snapshot: Snapshot, problems: Mapping[str, str]) -> dict[str, Any]:
    names, columns = snapshot.dimensions.names, snapshot.columns

    def amounts(column: Any, row: int) -> dict[str, int]:  # noqa: ANN401 - an array
        return {name: int(value) for name, value in zip(names, column[:, row], strict=True) if value}

    return {
        "problems": problems,
        "nodes": {
            name: {
                "allocatable": amounts(columns.allocatable, row),
                "used": amounts(columns.used, row),
                "releasing": amounts(columns.releasing, row),
                "pods": int(columns.pod_count[row]),
                "ready": bool(snapshot.is_ready[row]),
            }
            for name, row in sorted(snapshot.rows.items())
        },
        "queues": {
            name: {"weight": queue.weight, "priority": queue.priority, "open": queue.is_open, "capability": queue.capability}
            for name, queue in sorted(snapshot.queues.items())
        },
        "jobs": {
            job.key: {
                "queue": job.queue,
                "phase": str(job.group.status.phase),
                "priority": job.priority,
                "minAvailable": job.min_available,
                "roles": dict(job.role_minimum),
                "tasks": {status.label: job.tally[status] for status in TaskStatus if job.tally[status]},
                "conditions": [f"{each.type} {each.reason}: {each.message}" for each in job.group.status.conditions],
            }
            for job in sorted(snapshot.all_jobs.values(), key=lambda job: job.key)
        },
    }
