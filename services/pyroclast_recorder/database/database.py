"""The database: connections, transactions, and what the recorder writes."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterable, Mapping, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, Final

from sqlalchemy import Column, ColumnElement, Table, and_, delete, event, func, literal, or_, select, text, tuple_
from sqlalchemy.engine import URL, make_url
from sqlalchemy.exc import ArgumentError, DataError, DBAPIError
from sqlalchemy.ext.asyncio import AsyncConnection, AsyncEngine, create_async_engine

from pyroclast_recorder.database.batches import Batch, Cursor
from pyroclast_recorder.database.merging import merged, replace, upsert
from pyroclast_recorder.database.migration import migrate
from pyroclast_recorder.database.native_groups import native_groups_before, update_native_groups
from pyroclast_recorder.database.tables import (
    Row,
    composites,
    cursors,
    dirty_hours,
    gaps,
    job_alikes,
    job_causes,
    job_phases,
    jobs,
    node_states,
    owners,
    pod_use,
    pods,
    queue_minutes,
    reservations,
    usage_days,
    usage_hours,
)
from pyroclast_recorder.database.usage_rows import FOREVER, usage_rows
from pyroclast_recorder.facts.native_groups import GroupEnd
from pyroclast_recorder.hourly_usage import DAY, HOUR, HourUsage, changed_hours, held, hours_between
from pyroclast_recorder.measured_hours import means_in, measured_hours

__all__ = ["SETTLED", "Database", "DatabaseUnavailable", "RowRefused", "WrongUrl", "check_url"]

DRIVERS: Final = {"sqlite": "sqlite+aiosqlite", "postgresql": "postgresql+asyncpg", "postgres": "postgresql+asyncpg"}
SETTLED: Final = "usage"
"""The cursor that tells until when pods that still run have been counted."""

HOURS_AT_ONCE: Final = 24
FIRST_ANALYZED: Final = 2_000
GROWTH: Final = 4
"""Rows after which the database counts what its tables hold, and by how much they grow until it does so again.

A planner that believes them to be empty reads all of them, and its own look comes a minute later.
"""

CONNECT_SECONDS: Final = 10.0
COMMAND_SECONDS: Final = 60.0
LOCKED_SECONDS: Final = 30.0
"""How long PostgreSQL may take for a connection and for a statement, and how long a SQLite file may be locked by another."""

UNAVAILABLE: Final = (DBAPIError, OSError, asyncio.TimeoutError)
WHOSE: Final = (jobs.c.queue, jobs.c.submitted_by, jobs.c.owner_kind, jobs.c.owner_name)
"""Columns of a Job that say whom the use of its pods is put down to."""


class WrongUrl(Exception):
    """The URL names no database that the recorder can use."""


class DatabaseUnavailable(Exception):
    """The database did not do what it was asked for; it may later."""


class RowRefused(Exception):
    """A row holds a value that its column cannot; the others of its transaction were not written either."""


class Database:
    """One cluster's part of a database. All methods raise DatabaseUnavailable; those that write, RowRefused.

    Args:
        url: `sqlite:///PATH` or `postgresql://USER:PASSWORD@HOST/NAME`.
        cluster: uid of the namespace kube-system.

    Raises:
        WrongUrl: another kind of database, or no URL.
    """

    def __init__(self, url: str, cluster: str) -> None:
        self.cluster = cluster
        self._engine = _engine(check_url(url))
        self._dialect = self._engine.dialect.name
        self._written, self._analyze_at = 0, FIRST_ANALYZED
        self._writing = asyncio.Lock()  # SQLite has one writer, and what is worked out must not miss what is being written

    @property
    def is_shared(self) -> bool:
        """Whether several replicas can use it."""
        return self._dialect != "sqlite"

    async def migrate(self) -> None:
        """Bring the schema to this version.

        Raises:
            NewerSchema: a later version of the recorder wrote it.
        """
        async with self._transaction() as connection:
            await connection.run_sync(migrate)

    async def close(self) -> None:
        """Close all connections."""
        await self._engine.dispose()

    async def cursors(self) -> dict[str, Cursor]:
        """How far the rows of each kind reach."""
        async with self.reading() as connection:
            found = await connection.execute(select(cursors).where(cursors.c.cluster == self.cluster))
            return {row["kind"]: Cursor(*(row[name] for name in Cursor._fields)) for row in found.mappings()}

    async def still_there(self, table: Table, kind: str | None = None) -> dict[str, Row]:
        """The rows of Jobs or pods, by uid, of which nobody saw yet that they are gone; `kind`: of what is shown like Jobs."""
        there = [table.c.cluster == self.cluster, (table.c.released_high if table is pods else table.c.removed).is_(None)]
        if table is jobs:
            there.append(jobs.c.kind.is_not_distinct_from(kind))
        async with self.reading() as connection:
            found = await connection.execute(select(table).where(*there))
            return {row["uid"]: dict(row) for row in found.mappings()}

    async def nodes_there(self) -> dict[str, str]:
        """The names of the nodes, by uid, of which nobody saw yet that they are gone."""
        mine = node_states.c.cluster == self.cluster
        at = func.max(node_states.c.at).label("at")
        last = select(node_states.c.uid, at).where(mine).group_by(node_states.c.uid).subquery()
        newest = and_(node_states.c.uid == last.c.uid, node_states.c.at == last.c.at)
        async with self.reading() as connection:
            found = await connection.execute(
                select(node_states.c.uid, node_states.c.name).join(last, newest).where(mine, node_states.c.allocatable != "{}")
            )
            return {row.uid: row.name or "" for row in found}

    async def owners_there(self, kind: str) -> list[str]:
        """The uids of what makes Jobs, of one kind, of which nobody saw yet that they are gone."""
        there = (owners.c.cluster == self.cluster, owners.c.kind == kind, owners.c.removed.is_(None))
        async with self.reading() as connection:
            return list(await connection.scalars(select(owners.c.uid).where(*there)))

    async def open_jobs(self) -> list[tuple[str | None, str | None, str, int]]:
        """Queue, phase, what all pods ask for as JSON, and the number of the Jobs that have not ended."""
        groups = (jobs.c.queue, jobs.c.phase, jobs.c.requests)
        is_open = (jobs.c.cluster == self.cluster, jobs.c.ended.is_(None), jobs.c.removed.is_(None))
        chosen = select(*groups, func.count()).where(*is_open, jobs.c.requests.is_not(None)).group_by(*groups)
        async with self.reading() as connection:
            return [tuple(row) for row in await connection.execute(chosen)]

    async def reservations_there(self) -> dict[str, str]:
        """The nodes, as JSON, that are kept for PodGroups, by uid of these."""
        mine = reservations.c.cluster == self.cluster
        at = func.max(reservations.c.at).label("at")
        last = select(reservations.c.uid, at).where(mine).group_by(reservations.c.uid).subquery()
        newest = and_(reservations.c.uid == last.c.uid, reservations.c.at == last.c.at)
        chosen = select(reservations.c.uid, reservations.c.nodes).join(last, newest).where(mine, reservations.c.nodes != "[]")
        async with self.reading() as connection:
            return {row.uid: row.nodes for row in await connection.execute(chosen)}

    async def running_pods(self) -> dict[tuple[str, str], str]:
        """The uids of the pods of Jobs that hold what they asked for, by namespace and name."""
        there = (pods.c.cluster == self.cluster, pods.c.released_high.is_(None), pods.c.bound.is_not(None))
        async with self.reading() as connection:
            found = await connection.execute(select(pods.c.namespace, pods.c.name, pods.c.uid).where(*there))
            return {(row.namespace, row.name): row.uid for row in found}

    async def pods_of_ended(self, since: int, until: int) -> list[Row]:
        """The pods that were bound of the Jobs that ended after `since` and until `until`, those of one Job together."""
        ended = func.coalesce(jobs.c.ended, jobs.c.removed)
        same = and_(jobs.c.cluster == pods.c.cluster, jobs.c.uid == pods.c.job)
        when = or_(jobs.c.ended.is_(None), jobs.c.ended > since)  # by the index of ends
        chosen = (
            select(pods).join_from(pods, jobs, same).where(jobs.c.cluster == self.cluster, when, ended > since, ended <= until)
        )
        async with self.reading() as connection:
            ordered = chosen.where(pods.c.bound.is_not(None)).order_by(pods.c.job, pods.c.bound)
            return [dict(row) for row in (await connection.execute(ordered)).mappings()]

    async def used_since(self, since: int, width: int) -> list[tuple[int, str, str, str, int]]:
        """What was asked for from an hour on, in times of so many seconds: their begin, queue, submitter, resource and amount."""
        first = -(-since // HOUR) * HOUR
        rows = usage_rows(self.cluster, first, FOREVER, {}, by_hour=width < DAY).c
        groups = ((rows.at // width * width).label("begin"), rows.queue, rows.submitted_by, rows.resource)
        chosen = select(*groups, func.sum(rows.asked)).group_by(*groups)
        async with self.reading() as connection:
            found = await connection.execute(chosen)
            return [(int(at), queue, user, resource, int(amount)) for at, queue, user, resource, amount in found]

    async def runs(self, since: int, most: int) -> list[Row]:
        """At most `most` Jobs that ended from `since` on, newest first, and as many that run, with what tells them alike.

        What is below a CompositePodGroup without a parent counts together.
        """
        same = and_(job_alikes.c.cluster == jobs.c.cluster, job_alikes.c.job == jobs.c.uid)
        of_jobs = select(*_run(jobs, job_alikes, job_alikes.c.estimate)).join_from(jobs, job_alikes, same)
        of_trees = select(*_run(composites, composites, composites.c.declared)).where(composites.c.alike.is_not(None))
        ended: list[Row] = []
        running: list[Row] = []
        async with self.reading() as connection:
            for table, each in ((jobs, of_jobs), (composites, of_trees)):
                chosen = each.where(table.c.cluster == self.cluster, table.c.started.is_not(None)).limit(most)
                of_ended = chosen.where(table.c.ended >= since).order_by(table.c.ended.desc())
                ended += (dict(row) for row in (await connection.execute(of_ended)).mappings())
                of_running = chosen.where(table.c.ended.is_(None), table.c.removed.is_(None))
                running += (dict(row) for row in (await connection.execute(of_running)).mappings())
        ended.sort(key=lambda row: -row["ended"])
        return [*ended[:most], *running[:most]]

    async def jobs_of(self, uids: Sequence[str]) -> dict[str, Row]:
        """The rows of Jobs, by uid."""
        async with self.reading() as connection:
            found = await connection.execute(select(jobs).where(jobs.c.cluster == self.cluster, jobs.c.uid.in_(uids)))
            return {row["uid"]: dict(row) for row in found.mappings()}

    async def rows_of_job(self, uid: str) -> dict[Table, list[Row]]:
        """The rows of phases, causes and pods of a Job."""
        async with self.reading() as connection:
            found: dict[Table, list[Row]] = {}
            for table in (job_phases, job_causes, pods):
                chosen = select(table).where(table.c.cluster == self.cluster, table.c.job == uid)
                found[table] = [dict(row) for row in (await connection.execute(chosen)).mappings()]
            return found

    async def write(self, batch: Batch, now: int) -> list[GroupEnd]:
        """Merge a batch into the tables, all of it or nothing.

        Hours whose use it changes are noted, to be added up anew by `settle`.

        Returns:
            The PodGroups of Kubernetes that had not ended before.
        """
        async with self._transaction() as connection:
            hours = await self._changed_hours(connection, batch, now)
            before = await native_groups_before(connection, batch)
            for table, rows in batch.rows.items():
                await connection.execute(upsert(table, self._dialect), list(rows.values()))
                self._written += len(rows)
            if self._written >= self._analyze_at:
                await connection.execute(text("ANALYZE"))
                self._analyze_at = GROWTH * self._written
            ends = await update_native_groups(connection, batch, before)
            await self._note_hours(connection, hours)
            if moved := batch.cursor_rows():
                await connection.execute(replace(cursors, self._dialect), moved)
        return ends

    async def settle(self, now: int) -> int:
        """Add up anew the use of all hours that changed, and of pods that still run until now; the number of hours."""
        async with self._transaction() as connection:
            since = await connection.scalar(
                select(cursors.c.at).where(cursors.c.cluster == self.cluster, cursors.c.kind == SETTLED)
            )
            last = now if since is None else since  # later than now where a clock jumped: what was counted too far goes again
            await self._note_hours(connection, hours_between(min(last, now), max(last, now)))
            moved = {"cluster": self.cluster, **Cursor(SETTLED, "", now, 0)._asdict()}
            await connection.execute(replace(cursors, self._dialect), [moved])
        settled = 0
        while hours := await self._settle_some(now):
            settled += hours
        return settled

    async def prune(self, table: Table, before: int, at_once: int) -> int:
        """Delete up to `at_once` rows of what ended before a time, in seconds; hours that are not settled yet keep their pods."""
        ended = {
            jobs: jobs.c.removed,
            composites: composites.c.removed,
            owners: owners.c.removed,
            pods: pods.c.released_high,
            usage_hours: usage_hours.c.hour,
            usage_days: usage_days.c.day + (DAY - HOUR),  # as long as any of its hours
            gaps: gaps.c.until,
            queue_minutes: queue_minutes.c.minute,
            pod_use: pod_use.c.since,
        }.get(table)
        ended = table.c.at if ended is None else ended
        keys = list(table.primary_key)
        async with self._transaction() as connection:
            open_hour = await connection.scalar(select(func.min(dirty_hours.c.hour)).where(dirty_hours.c.cluster == self.cluster))
            limit = before if open_hour is None or table in {usage_hours, usage_days} else min(before, open_hour)
            old = select(*keys).where(table.c.cluster == self.cluster, ended < limit).limit(at_once)
            if table in {node_states, reservations}:  # the last state before the limit still holds behind it
                later = node_states.alias()
                same = and_(later.c.cluster == table.c.cluster, later.c.uid == table.c.uid)
                old = old.where(select(later.c.at).where(same, later.c.at > table.c.at, later.c.at < limit).exists())
            if table is pods:  # those of a PodGroup of Kubernetes tell how it ended, whenever something is seen of it again
                theirs = (jobs.c.cluster == pods.c.cluster, jobs.c.uid == pods.c.job, jobs.c.kind.is_not(None))
                is_kept = or_(jobs.c.removed.is_(None), jobs.c.removed >= limit)
                old = old.where(~select(jobs.c.uid).where(*theirs, is_kept).exists())
            deleted = await connection.execute(delete(table).where(tuple_(*keys).in_(old)))
            return deleted.rowcount

    @asynccontextmanager
    async def reading(self) -> AsyncIterator[AsyncConnection]:
        """A connection to read with."""
        try:
            async with self._engine.connect() as connection:
                yield connection
        except UNAVAILABLE as error:
            raise DatabaseUnavailable(_cause(error)) from error

    @asynccontextmanager
    async def _transaction(self) -> AsyncIterator[AsyncConnection]:
        async with self._writing:
            try:
                async with self._engine.begin() as connection:
                    yield connection
            except OverflowError as error:
                raise RowRefused(str(error)) from error
            except UNAVAILABLE as error:
                if _is_about_a_value(error):
                    raise RowRefused(_cause(error)) from error
                raise DatabaseUnavailable(_cause(error)) from error

    async def _changed_hours(self, connection: AsyncConnection, batch: Batch, now: int) -> set[int]:
        hours: set[int] = set()
        if rows := {row["uid"]: row for row in batch.rows.get(pods, {}).values()}:
            stored = await self._stored(connection, pods, rows)
            for uid, row in rows.items():
                old = stored.get(uid)
                hours.update(changed_hours(held(old) if old else None, held(merged(pods, old, row) if old else row), now))
        if uses := list(batch.rows.get(pod_use, {}).values()):
            of_pods = await self._stored(connection, pods, {use["pod"] for use in uses})
            for use in uses:
                measured = of_pods.get(use["pod"])
                time = held(measured) if measured else None
                hours.update(measured_hours(use, time, now) if time else ())
        if rows := {row["uid"]: row for row in batch.rows.get(jobs, {}).values() if row["kind"] is None}:
            stored = await self._stored(connection, jobs, rows)
            passed_on = [
                uid for uid, row in rows.items() if _whose(stored.get(uid)) != _whose(merged(jobs, row, stored.get(uid, row)))
            ]
            if passed_on:
                of_jobs = select(pods).where(pods.c.cluster == self.cluster, pods.c.job.in_(passed_on))
                for pod in (await connection.execute(of_jobs)).mappings():
                    hours.update(changed_hours(None, held(dict(pod)), now))
        return hours

    async def _stored(self, connection: AsyncConnection, table: Table, uids: Iterable[str]) -> Mapping[str, Row]:
        found = await connection.execute(select(table).where(table.c.cluster == self.cluster, table.c.uid.in_(list(uids))))
        return {row["uid"]: dict(row) for row in found.mappings()}

    async def _note_hours(self, connection: AsyncConnection, hours: Iterable[int]) -> None:
        rows = [{"cluster": self.cluster, "hour": hour} for hour in hours]
        if rows:
            await connection.execute(replace(dirty_hours, self._dialect), rows)

    async def _settle_some(self, now: int) -> int:
        async with self._transaction() as connection:
            noted = select(dirty_hours.c.hour).where(dirty_hours.c.cluster == self.cluster)
            hours: Sequence[int] = (await connection.scalars(noted.order_by(dirty_hours.c.hour).limit(HOURS_AT_ONCE))).all()
            for hour in hours:
                await self._settle_hour(connection, hour, now)
            for day in sorted({hour // DAY * DAY for hour in hours}):
                await self.settle_day(connection, day)
            return len(hours)

    async def _settle_hour(self, connection: AsyncConnection, hour: int, now: int) -> None:
        usage = HourUsage(hour, now)
        ended_before = and_(pods.c.released_high.is_not(None), pods.c.released_high < hour)
        in_hour = (pods.c.cluster == self.cluster, pods.c.bound < hour + HOUR, ~ended_before)
        whose = [column.label(f"job_{column.name}") for column in WHOSE]
        is_job = and_(jobs.c.cluster == pods.c.cluster, jobs.c.uid == pods.c.job, jobs.c.kind.is_(None))
        touching = select(pods, jobs.c.uid.label("job_uid"), *whose).join_from(pods, jobs, is_job, isouter=True).where(*in_hour)
        of_pods = and_(pod_use.c.cluster == pods.c.cluster, pod_use.c.pod == pods.c.uid)
        measuring = select(pod_use).join_from(pods, pod_use, of_pods).where(*in_hour)
        means = means_in(hour, [dict(row) for row in (await connection.execute(measuring)).mappings()])
        found = await connection.stream(touching)
        async for row in found.mappings():
            job = {column.name: row[f"job_{column.name}"] for column in WHOSE} if row["job_uid"] is not None else None
            usage.add(dict(row), job, means.get(row["uid"], {}))
        of_hour = (usage_hours.c.cluster == self.cluster, usage_hours.c.hour == hour)
        await connection.execute(delete(usage_hours).where(*of_hour))
        if rows := [{"cluster": self.cluster, **row} for row in usage.rows()]:
            await connection.execute(usage_hours.insert(), rows)
        await connection.execute(delete(dirty_hours).where(dirty_hours.c.cluster == self.cluster, dirty_hours.c.hour == hour))

    async def settle_day(self, connection: AsyncConnection, day: int) -> None:
        """Add up a day from its hours, in the transaction in which these changed."""
        of_day = (usage_days.c.cluster == self.cluster, usage_days.c.day == day)
        await connection.execute(delete(usage_days).where(*of_day))
        whose = [column for column in usage_hours.primary_key if column is not usage_hours.c.hour]
        sums = [func.sum(usage_hours.c[name]) for name in ("asked", "doubtful", "measured", "used")]
        hours = usage_hours.c.hour.between(day, day + DAY - 1)
        chosen = select(*whose, *sums, literal(day)).where(usage_hours.c.cluster == self.cluster, hours).group_by(*whose)
        into = [*(column.name for column in whose), "asked", "doubtful", "measured", "used", "day"]
        await connection.execute(usage_days.insert().from_select(into, chosen))


def check_url(url: str) -> URL:
    """The URL with the driver that is used.

    Raises:
        WrongUrl: it names no database that the recorder can use.
    """
    try:
        parsed = make_url(url)
    except ArgumentError:
        raise WrongUrl("it is no URL; sqlite:///PATH or postgresql://USER:PASSWORD@HOST/NAME would be one") from None
    driver = DRIVERS.get(parsed.get_backend_name())
    if driver is None:
        raise WrongUrl(f"{parsed.get_backend_name()} is no database that the recorder knows; there are sqlite and postgresql")
    if not parsed.database:
        raise WrongUrl(
            "it names no file: sqlite:///PATH" if "sqlite" in driver else "it names no database: postgresql://HOST/NAME"
        )
    return parsed.set(drivername=driver)


def _engine(url: URL) -> AsyncEngine:
    if url.get_backend_name() == "postgresql":
        limits = {"timeout": CONNECT_SECONDS, "command_timeout": COMMAND_SECONDS}
        return create_async_engine(url, pool_size=5, pool_pre_ping=True, connect_args=limits)
    Path(url.database or "").parent.mkdir(parents=True, exist_ok=True)
    engine = create_async_engine(url, connect_args={"timeout": LOCKED_SECONDS})
    event.listen(engine.sync_engine, "connect", _prepare_sqlite)
    event.listen(engine.sync_engine, "begin", lambda connection: connection.exec_driver_sql("BEGIN"))
    return engine


def _prepare_sqlite(connection: Any, _: object) -> None:  # noqa: ANN401 - of the driver
    """Several may read while one writes; transactions begin when we say so."""
    connection.isolation_level = None
    cursor = connection.cursor()
    cursor.execute("PRAGMA journal_mode=WAL")
    cursor.execute("PRAGMA synchronous=NORMAL")
    cursor.execute("PRAGMA analysis_limit=1000")
    cursor.close()


def _run(table: Table, alikes: Table, declared: Column[Any]) -> list[ColumnElement[Any]]:
    """What `runs` tells of the rows of a table; `declared`: the estimate where a row has none itself."""
    estimate = func.coalesce(table.c.estimate, declared).label("estimate")
    return [*(table.c[name] for name in ("phase", "started", "ended", "removed")), estimate, alikes.c.alike, alikes.c.owner]


def _whose(job: Row | None) -> tuple[Any, ...]:
    return tuple(job[column.name] for column in WHOSE) if job else ()


def _is_about_a_value(error: BaseException) -> bool:
    """Whether a value was refused; asyncpg's own errors stand behind those of SQLAlchemy."""
    cause: BaseException | None = error
    while cause is not None:
        if isinstance(cause, DataError) or type(cause).__name__ == DataError.__name__:
            return True
        cause = getattr(cause, "orig", None) or cause.__cause__
    return False


def _cause(error: BaseException) -> str:
    """The database's own words in one line, without the statement and its values."""
    cause = getattr(error, "orig", None) or error
    return (str(cause) or type(cause).__name__).splitlines()[0]
