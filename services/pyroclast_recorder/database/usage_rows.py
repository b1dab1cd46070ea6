"""The rows of usage between two times: whole days from the table of days, the other hours from the table of hours.

A year has 24 times as many rows in the table of hours as in the table of days.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Final

from sqlalchemy import ColumnElement, Select, Subquery, Table, or_, select, union_all

from pyroclast_recorder.database.tables import pods, usage_days, usage_hours
from pyroclast_recorder.hourly_usage import DAY, HOUR

FOREVER: Final = 2**40
"""A time that is later than any other time."""

_COLUMNS: Final = ("queue", "ancestors", "namespace", "submitted_by", "flow", "resource", "asked", "doubtful", "measured", "used")


def usage_rows(cluster: str, since: int, until: int, only: Mapping[str, Collection[str]], *, by_hour: bool = False) -> Subquery:
    """Return a subquery of the usage in the hours that begin from `since` to `until`, both included.

    The column `at` is the start of the hour or day of a row.

    Args:
        since: the start of an hour.
        until: any time.
        only: the allowed values of columns, by name of the column.
        by_hour: whether the rows must be hours, not days.
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
