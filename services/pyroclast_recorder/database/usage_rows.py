"""The rows of usage between two times, and the means of what queues had by hour and by day.

A report reads whole days from the table of days, and the other hours from the table of hours, which has 24 times as many rows.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any, Final

from sqlalchemy import BigInteger, ColumnElement, Select, Subquery, Table, cast, func, literal, or_, select, union_all
from sqlalchemy.ext.asyncio import AsyncConnection

from pyroclast_recorder.database.batches import insert_into
from pyroclast_recorder.database.tables import MEANS, pods, queue_days, queue_hours, queue_minutes, usage_days, usage_hours
from pyroclast_recorder.hourly_usage import DAY, HOUR

FOREVER: Final = 2**40
"""A time that is later than any other time."""

_COLUMNS: Final = ("queue", "ancestors", "namespace", "submitted_by", "flow", "resource", "asked", "doubtful", "measured", "used")


def usage_rows(cluster: str, since: int, until: int, only: Mapping[str, Collection[str]], *, by_hour: bool = False) -> Subquery:
    """Return a subquery of the usage in the hours that begin from `since` to `until`, both included.

    The column `at` is the start of the hour or day of a row. `since`: the start of an hour. `only`: the allowed values of
    columns, by name of the column. `by_hour`: whether the rows must be hours, not days.
    """
    first = -(-since // DAY) * DAY
    end = (until + HOUR) // DAY * DAY  # an hour that begins at `until` or earlier counts as a whole
    if by_hour or end <= first:
        return _between(usage_hours, cluster, since, until, only).subquery()
    parts = [_between(usage_days, cluster, first, end - 1, only)]
    if since < first:
        parts.append(_between(usage_hours, cluster, since, first - 1, only))
    if end <= until:
        parts.append(_between(usage_hours, cluster, end, until, only))
    return union_all(*parts).subquery()


def held_between(cluster: str, since: int, until: int) -> tuple[ColumnElement[bool], ...]:
    """Return the conditions of pods that may have held their requests between two times."""
    is_later = or_(pods.c.released_high.is_(None), pods.c.released_high >= since)
    return (pods.c.cluster == cluster, pods.c.bound < until, is_later)


def _between(
    table: Table, cluster: str, first: int, last: int, only: Mapping[str, Collection[str]]
) -> Select[tuple[object, ...]]:
    at = table.c.day if table is usage_days else table.c.hour
    allowed = (table.c[name].in_(sorted(values)) for name, values in only.items())
    columns = (table.c[name] for name in _COLUMNS)
    return select(at.label("at"), *columns).where(table.c.cluster == cluster, at.between(first, last), *allowed)


def evicted(cluster: str, since: int, until: int, step: int) -> Select[tuple[int, str, int]]:
    """Return the query for the number of evicted pods by interval of `step` seconds and queue, from `since` until `until`."""
    begin = (pods.c.released_high // step * step).label("at")
    queue = func.coalesce(pods.c.queue, "default").label("queue")
    chosen = select(begin, queue, func.count().label("evictions")).group_by(begin, queue)
    ended = pods.c.released_high.between(since, until - 1)
    return chosen.where(pods.c.cluster == cluster, ended, pods.c.evicted_for.is_not(None))


async def add_up_queues(connection: AsyncConnection, cluster: str, hour: int) -> None:
    """Write the means of the minutes of an hour, and the evictions in it. An hour without minutes keeps its means.

    So an hour that is added up again after its minutes were deleted stays as it is.
    """
    samples = func.count(queue_minutes.c.allocated)
    means = [_whole(func.sum(queue_minutes.c[name])) // func.nullif(samples, 0) for name in MEANS]
    of_hour = (queue_minutes.c.cluster == cluster, queue_minutes.c.minute.between(hour, hour + HOUR - 1))
    whose = (queue_minutes.c.cluster, queue_minutes.c.queue, queue_minutes.c.resource)
    sums = (samples, *means, func.max(queue_minutes.c.capability))
    names = ("samples", *MEANS, "capability")
    await _put(connection, queue_hours, select(*whose, literal(hour), *sums).where(*of_hour).group_by(*whose), names)
    lost = evicted(cluster, hour, hour + HOUR, HOUR).subquery().c
    without_resource = select(literal(cluster), lost.queue, literal(""), literal(hour), lost.evictions).where(lost.evictions > 0)
    await _put(connection, queue_hours, without_resource, ("evictions",))


async def add_up_queue_days(connection: AsyncConnection, cluster: str, day: int) -> None:
    """Write the means and the evictions of the hours of a day. A day without hours keeps its means."""
    of = queue_hours.c
    samples = func.nullif(func.sum(of.samples), 0)
    means = [_whole(func.sum(of[name] * of.samples)) // _whole(samples) for name in MEANS]
    whose = (of.cluster, of.queue, of.resource)
    sums = (func.sum(of.samples), *means, func.max(of.capability), func.sum(of.evictions))
    names = ("samples", *MEANS, "capability", "evictions")
    of_day = (of.cluster == cluster, of.hour.between(day, day + DAY - 1))
    await _put(connection, queue_days, select(*whose, literal(day), *sums).where(*of_day).group_by(*whose), names)


def _whole(value: ColumnElement[int]) -> ColumnElement[int]:
    """Return a sum as a whole number. The sum of a column of PostgreSQL is a decimal number, whose quotients have fractions."""
    return cast(value, BigInteger)


async def _put(connection: AsyncConnection, table: Table, chosen: Select[Any], names: Collection[str]) -> None:
    """Insert what a query returns, or replace the columns `names` of existing rows."""
    time = "day" if table is queue_days else "hour"
    insert = insert_into(table, connection.dialect.name)
    insert = insert.from_select(["cluster", "queue", "resource", time, *names], chosen)
    changes = {name: insert.excluded[name] for name in names}
    await connection.execute(insert.on_conflict_do_update(index_elements=list(table.primary_key), set_=changes))
