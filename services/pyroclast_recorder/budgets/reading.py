"""Usage since a time, by queue: whole hours from the tables of sums, and the rest of the first hour from the pods."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Mapping
from typing import Any, Final

import orjson
from sqlalchemy import and_, func, select
from sqlalchemy.ext.asyncio import AsyncConnection

from pyroclast_recorder.budgets.deciding import Use
from pyroclast_recorder.database.database import SETTLED
from pyroclast_recorder.database.tables import cursors, jobs, pods
from pyroclast_recorder.database.usage_rows import usage_rows
from pyroclast_recorder.hourly_usage import HOUR, held, share_of

WHOSE: Final = ("queue", "submitted_by", "owner_kind", "owner_name")


async def settled_at(connection: AsyncConnection, cluster: str) -> int | None:
    """Return the time until which usage is added up; None if usage was never added up."""
    found: int | None = await connection.scalar(
        select(cursors.c.at).where(cursors.c.cluster == cluster, cursors.c.kind == SETTLED)
    )
    return found


async def use_since(connection: AsyncConnection, cluster: str, since: int, as_of: int, resources: Collection[str]) -> Use:
    """Return the usage of `resources` from `since` until `as_of`, the time until which usage is added up."""
    whole = -(-since // HOUR) * HOUR
    found: dict[tuple[str, str], tuple[int, int]] = {}
    rows = usage_rows(cluster, whole, as_of, {"resource": resources}).c
    sums = select(rows.queue, rows.resource, func.sum(rows.asked), func.sum(rows.doubtful)).group_by(rows.queue, rows.resource)
    for queue, resource, asked, doubtful in await connection.execute(sums):
        found[queue, resource] = int(asked), int(doubtful)
    if whole > since:
        for slot, (asked, doubtful) in (await _use_between(connection, cluster, since, min(whole, as_of), resources)).items():
            known = found.get(slot, (0, 0))
            found[slot] = known[0] + asked, known[1] + doubtful
    return found


async def _use_between(connection: AsyncConnection, cluster: str, since: int, until: int, resources: Collection[str]) -> Use:
    """Return the usage of `resources` in a part of an hour, from the pods that ran in it."""
    columns = [jobs.c[name].label(f"job_{name}") for name in WHOSE]
    touching = (
        select(pods, jobs.c.uid.label("job_uid"), *columns)
        .join_from(pods, jobs, and_(jobs.c.cluster == pods.c.cluster, jobs.c.uid == pods.c.job), isouter=True)
        .where(pods.c.cluster == cluster, pods.c.bound < until)
        .where(~and_(pods.c.released_high.is_not(None), pods.c.released_high < since))
    )
    found: dict[tuple[str, str], list[int]] = defaultdict(lambda: [0, 0])
    async for mapping in (await connection.stream(touching)).mappings():
        row = dict(mapping)
        time = held(row)
        if time is None:
            continue
        end = until if time.end is None else time.end
        seconds = max(0, min(end, until) - max(time.begin, since))
        doubt = time.doubt if since <= end < until else 0
        for resource, amount in orjson.loads(row["requests"]).items():
            if resource in resources and (seconds or doubt):
                total = found[share_of(row, _job_of(row), resource).queue, resource]
                total[0] += amount * seconds
                total[1] += amount * doubt
    return {slot: (asked, doubtful) for slot, (asked, doubtful) in found.items()}


def _job_of(row: Mapping[str, Any]) -> dict[str, Any] | None:
    return {name: row[f"job_{name}"] for name in WHOSE} if row["job_uid"] is not None else None
