"""The database: connections, transactions, and the statements with which the recorder writes."""

from __future__ import annotations

import asyncio
from collections import Counter, defaultdict
from collections.abc import AsyncGenerator, AsyncIterator, Collection, Iterable, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import Any, Final

from sqlalchemy import Column, ColumnElement, Select, Table, and_, case, delete, func, literal, or_, select, text, tuple_
from sqlalchemy.ext.asyncio import AsyncConnection

from pyroclast_recorder.database.batches import Batch, Cursor, addition, key_of, merged, replace, upsert
from pyroclast_recorder.database.connections import (
    UNAVAILABLE,
    Answers,
    DatabaseUnavailable,
    RowRefused,
    cause_of,
    engine_of,
    is_about_a_value,
    read_rows,
)
from pyroclast_recorder.database.migration import migrate
from pyroclast_recorder.database.native_groups import native_groups_before, update_native_groups
from pyroclast_recorder.database.tables import (
    Row,
    commands,
    composites,
    cursors,
    dirty_hours,
    gaps,
    job_alikes,
    job_causes,
    job_phases,
    jobs,
    node_states,
    notices,
    owners,
    pod_use,
    pods,
    predictions,
    queue_days,
    queue_hours,
    queue_minutes,
    queue_parents,
    queue_settings,
    reservations,
    usage_days,
    usage_hours,
)
from pyroclast_recorder.database.usage_rows import FOREVER, add_up_queue_days, add_up_queues, held_between, usage_rows
from pyroclast_recorder.facts.native_groups import GroupEnd
from pyroclast_recorder.hourly_usage import (
    DAY,
    HOUR,
    SUMS,
    HourUsage,
    changed_hours,
    held,
    hours_between,
    intervals,
    means_in,
    measured_hours,
)
from pyroclast_recorder.past_states import OF_STATE, State, continued, states_of
from pyroclast_recorder.queue_tree import QueueTree

SETTLED: Final = "usage"
"""The kind of the cursor whose time is the end of the usage that is added up."""

CLOSED: Final = "usage, closed"
"""The kind of the cursor whose time is the end of the closed hours."""

WRITTEN: Final = "written"
"""The kind of the cursor whose time is the last time at which the recording replica had written all rows."""

HOURS_AT_ONCE: Final = 24
FIRST_ANALYZED, GROWTH = 2_000, 4
"""The number of written rows before the first ANALYZE, and the growth factor before the next ANALYZE.

Without statistics, the query planner assumes empty tables and reads them whole. Autovacuum analyses them only a minute later.
"""

WHOSE: Final = (*(jobs.c[name] for name in OF_STATE[jobs]), jobs.c.states)
"""The columns of a Job that determine to whom the usage of its pods is charged."""

STATES: Final = frozenset({node_states, reservations, queue_parents, queue_settings})
"""The tables whose rows are valid until the next row of the same object."""

SOURCES: Final = frozenset({pods, pod_use, jobs})
"""The tables from which usage is added up."""

KEPT: Final[Mapping[Table, tuple[str, ColumnElement[int]]]] = {
    # of a row that only a PodGroup made, whose Job was never seen, this is the admission of the PodGroup
    jobs: ("keep_jobs", case((jobs.c.version == 0, jobs.c.let_in), else_=jobs.c.removed)),
    composites: ("keep_jobs", composites.c.removed),
    owners: ("keep_jobs", owners.c.removed),
    job_phases: ("keep_jobs", job_phases.c.at),
    job_alikes: ("keep_jobs", job_alikes.c.at),
    commands: ("keep_jobs", commands.c.at),
    queue_settings: ("keep_jobs", queue_settings.c.at),
    job_causes: ("keep_pods", job_causes.c.at),
    predictions: ("keep_pods", predictions.c.at),
    pods: ("keep_pods", pods.c.released_high),
    pod_use: ("keep_pods", pod_use.c.since),
    gaps: ("keep_usage", gaps.c.until),
    queue_parents: ("keep_usage", queue_parents.c.at),
    node_states: ("keep_usage", node_states.c.at),
    reservations: ("keep_usage", reservations.c.at),
    usage_hours: ("keep_usage", usage_hours.c.hour),
    usage_days: ("keep_usage", usage_days.c.day + (DAY - HOUR)),  # a day is kept as long as its last hour
    queue_minutes: ("keep_minutes", queue_minutes.c.minute),
    notices: ("keep_jobs", notices.c.at),
    queue_hours: ("keep_pods", queue_hours.c.hour),
    queue_days: ("keep_usage", queue_days.c.day),
}
"""The setting for how long the rows of each table are kept, and the time at which this begins."""


class Database:
    """The rows of one cluster in a database. All methods raise DatabaseUnavailable; methods that write also raise RowRefused.

    `url`: `sqlite:///PATH` or `postgresql://USER:PASSWORD@HOST/NAME`. `cluster`: the uid of the namespace kube-system, which
    identifies the cluster. Raises WrongUrl: `url` is no URL, or names another kind of database.
    """

    def __init__(self, url: str, cluster: str) -> None:
        self.cluster = cluster
        self._engine = engine_of(url)
        self._answers = Answers(url)
        self.answer = self._answers.answer
        self._dialect = self._engine.dialect.name
        self._written, self._analyze_at = 0, FIRST_ANALYZED
        self._writing = asyncio.Lock()  # SQLite has one writer, and derived rows must include all written rows

    @property
    def is_shared(self) -> bool:
        """Whether several replicas can use the database."""
        return self._dialect != "sqlite"

    async def migrate(self) -> None:
        """Migrate the schema to the version of this code. Raises UnknownSchema."""
        async with self.transaction() as connection:
            await connection.run_sync(migrate)

    async def close(self) -> None:
        """Close all connections."""
        await self._engine.dispose()
        await self._answers.engine.dispose()

    async def cursors(self) -> dict[str, Cursor]:
        """Return the cursor of each kind of objects, by kind."""
        of_kinds = cursors.c.kind.not_in([SETTLED, CLOSED, WRITTEN])
        found = await self._read(select(cursors).where(cursors.c.cluster == self.cluster, of_kinds))
        return {row["kind"]: Cursor(*(row[name] for name in Cursor._fields)) for row in found}

    async def still_there(self, table: Table, kind: str | None = None) -> dict[str, Row]:
        """Return the rows of Jobs, pods or owners without a recorded deletion or end, by uid.

        Rows that only other objects told of are left out, such as that of a Job whose PodGroup was seen before the Job.
        `kind`: the value of the column `kind`; None for Jobs.
        """
        there = [table.c.cluster == self.cluster, table.c.removed.is_(None)]
        if table is pods:  # the objects of ended pods are there until they are deleted
            there.append(or_(pods.c.released_high.is_(None), pods.c.gone.is_not(None)))
        if "kind" in table.c:
            there += [table.c.kind.is_not_distinct_from(kind), table.c.version > 0]
        return {row["uid"]: row for row in await self._read(select(table).where(*there))}

    async def open_jobs(self) -> list[tuple[str | None, str | None, str, int]]:
        """Count the Jobs that have not ended: tuples of queue, phase, requests of all pods as JSON, and number of Jobs."""
        groups = (jobs.c.queue, jobs.c.phase, jobs.c.requests)
        is_open = (jobs.c.cluster == self.cluster, jobs.c.ended.is_(None), jobs.c.removed.is_(None))
        chosen = select(*groups, func.count()).where(*is_open, jobs.c.requests.is_not(None)).group_by(*groups)
        async with self.reading() as connection:
            return [tuple(row) for row in await connection.execute(chosen)]

    async def newest(self, table: Table, *where: ColumnElement[bool]) -> list[dict[str, Any]]:
        """Return the last row of each uid in a table of states, if it meets the conditions."""
        mine = table.c.cluster == self.cluster
        last = select(table.c.uid, func.max(table.c.at).label("at")).where(mine).group_by(table.c.uid).subquery()
        same = and_(table.c.uid == last.c.uid, table.c.at == last.c.at)
        return await self._read(select(table).join(last, same).where(mine, *where))

    async def running_pods(self) -> dict[tuple[str, str], tuple[str, str]]:
        """Return the uid and the queue of each bound pod that has not ended, by namespace and name."""
        there = (pods.c.cluster == self.cluster, pods.c.released_high.is_(None), pods.c.bound.is_not(None))
        found = await self._read(select(pods.c.namespace, pods.c.name, pods.c.uid, pods.c.queue).where(*there))
        return {(row["namespace"], row["name"]): (row["uid"], row["queue"] or "default") for row in found}

    async def pods_of_ended(self, since: int, until: int) -> Sequence[Row]:
        """Return the bound pods of Jobs that ended after `since` and at most at `until`, ordered by Job."""
        ended = func.coalesce(jobs.c.ended, jobs.c.removed)
        same = and_(jobs.c.cluster == pods.c.cluster, jobs.c.uid == pods.c.job)
        when = or_(jobs.c.ended.is_(None), jobs.c.ended > since)  # uses the index of ends
        chosen = (
            select(pods).join_from(pods, jobs, same).where(jobs.c.cluster == self.cluster, when, ended > since, ended <= until)
        )
        return await self._read(chosen.where(pods.c.bound.is_not(None)).order_by(pods.c.job, pods.c.bound))

    async def used_since(self, since: int, width: int) -> list[tuple[int, str, str, str, int]]:
        """Return the requested usage since the first whole hour after `since`, in intervals of `width` seconds.

        Each tuple has the start of the interval, the queue, the submitter, the resource, and the amount × seconds.
        """
        first = -(-since // HOUR) * HOUR
        rows = usage_rows(self.cluster, first, FOREVER, {}, by_hour=width < DAY).c
        groups = ((rows.at // width * width).label("begin"), rows.queue, rows.submitted_by, rows.resource)
        chosen = select(*groups, func.sum(rows.asked)).group_by(*groups)
        async with self.reading() as connection:
            found = await connection.execute(chosen)
            return [(int(at), queue, user, resource, int(amount)) for at, queue, user, resource, amount in found]

    async def runs(self, since: int, most: int) -> list[Row]:
        """Return at most `most` Jobs that ended since `since`, newest first, and at most `most` running Jobs.

        Each row has the keys of similar Jobs. A tree of CompositePodGroups is one row.
        """
        same = and_(job_alikes.c.cluster == jobs.c.cluster, job_alikes.c.job == jobs.c.uid)
        of_jobs = select(*_run(jobs, job_alikes, job_alikes.c.estimate)).join_from(jobs, job_alikes, same)
        of_trees = select(*_run(composites, composites, composites.c.declared)).where(composites.c.alike.is_not(None))
        ended: list[Row] = []
        running: list[Row] = []
        async with self.reading() as connection:
            for table, each in ((jobs, of_jobs), (composites, of_trees)):
                chosen = each.where(table.c.cluster == self.cluster, table.c.started.is_not(None)).limit(most)
                ended += await read_rows(connection, chosen.where(table.c.ended >= since).order_by(table.c.ended.desc()))
                running += await read_rows(connection, chosen.where(table.c.ended.is_(None), table.c.removed.is_(None)))
        ended.sort(key=lambda row: -row["ended"])
        return [*ended[:most], *running[:most]]

    async def jobs_of(self, uids: Sequence[str]) -> dict[str, Row]:
        """Return the rows of the Jobs `uids`, by uid."""
        found = await self._read(select(jobs).where(jobs.c.cluster == self.cluster, jobs.c.uid.in_(uids)))
        return {row["uid"]: row for row in found}

    async def rows_of_job(self, uid: str) -> Mapping[Table, Sequence[Row]]:
        """Return the rows of the phases, causes and pods of a Job, by table."""
        async with self.reading() as connection:
            return {
                table: await read_rows(connection, select(table).where(table.c.cluster == self.cluster, table.c.job == uid))
                for table in (job_phases, job_causes, pods)
            }

    async def write(self, batch: Batch, now: int) -> list[GroupEnd]:
        """Merge a batch into the tables in one transaction; return the native PodGroups that ended with it.

        The hours whose usage changes are noted, so that `settle` adds them up again. Closed hours get a correction at once.
        """
        async with self.transaction() as connection:
            stored = await self._continued(connection, batch, now)
            changed = await self._changed_hours(connection, batch, stored, now)
            closed = await closed_until(connection, self.cluster)
            corrected = {uid: past for uid, hours in changed.items() if (past := {hour for hour in hours if hour < closed})}
            usage_before = await self._usage_of(connection, corrected, now)
            before = await native_groups_before(connection, batch)
            for table, rows in batch.rows.items():
                await connection.execute(upsert(table, self._dialect), list(rows.values()))
                self._written += len(rows)
            if self._written >= self._analyze_at:
                await connection.execute(text("ANALYZE"))
                self._analyze_at = GROWTH * self._written
            ends = await update_native_groups(connection, batch, before)
            await self._correct(connection, usage_before, await self._usage_of(connection, corrected, now))
            await self._note_hours(connection, {hour for hours in changed.values() for hour in hours if hour >= closed})
            if moved := batch.cursor_rows():
                await connection.execute(replace(cursors, self._dialect), moved)
        return ends

    async def settle(self, now: int) -> int:
        """Add up the usage of all changed hours again, and of running pods until `now`; return the number of hours."""
        async with self.transaction() as connection:
            since = await settled_at(connection, self.cluster)
            if since is None:  # the hours of ended pods were noted when these were written
                runs = (pods.c.cluster == self.cluster, pods.c.released_high.is_(None))
                since = await connection.scalar(select(func.min(pods.c.bound)).where(*runs))
            last = now if since is None else since  # later than now after a jump of the clock
            closed = await closed_until(connection, self.cluster)
            await self._note_hours(connection, (hour for hour in hours_between(min(last, now), max(last, now)) if hour >= closed))
            moved = {"cluster": self.cluster, **Cursor(SETTLED, "", now, 0)._asdict()}
            await connection.execute(replace(cursors, self._dialect), [moved])
        settled = 0
        while hours := await self._settle_some(now):
            settled += hours
        return settled

    async def prune(self, table: Table, before: int, at_once: int) -> int:
        """Delete up to `at_once` rows that ended before `before`, in seconds since the epoch; return their number.

        Rows that changed hours still need are kept until `settle` has added up these hours. Hours whose pods or Jobs may be
        deleted are closed: they are never added up again, and later changes of their usage are corrections.
        """
        keys, (_, ended) = list(table.primary_key), KEPT[table]
        async with self.transaction() as connection:
            open_hour = await connection.scalar(select(func.min(dirty_hours.c.hour)).where(dirty_hours.c.cluster == self.cluster))
            limit = before if open_hour is None or table in {usage_hours, usage_days} else min(before, open_hour)
            if length := {queue_minutes: HOUR, queue_hours: DAY}.get(table):  # the means are those of whole hours and days
                limit = limit // length * length
            if table in SOURCES:
                limit = min(limit, await settled_at(connection, self.cluster) or 0) // HOUR * HOUR
                if limit > await closed_until(connection, self.cluster):
                    row = {"cluster": self.cluster, **Cursor(CLOSED, "", limit, 0)._asdict()}
                    await connection.execute(replace(cursors, self._dialect), [row])
            old = select(*keys).where(table.c.cluster == self.cluster, ended < limit).limit(at_once)
            if table is pod_use:  # the use of a long run is judged as a whole
                old = old.where(~select(pods.c.uid).where(pods.c.cluster == table.c.cluster, pods.c.uid == table.c.pod).exists())
            if table in STATES:  # the last state before the limit is still valid after it
                later = table.alias()
                same = and_(later.c.cluster == table.c.cluster, later.c.uid == table.c.uid)
                old = old.where(select(later.c.at).where(same, later.c.at > table.c.at, later.c.at < limit).exists())
            if table is pods:  # a pod that is there would be listed again, and its usage would be added up twice
                old = old.where(or_(pods.c.gone.is_(None), pods.c.removed < limit))
                # the end of a native PodGroup is derived from its pods after each change of the PodGroup
                theirs = (jobs.c.cluster == pods.c.cluster, jobs.c.uid == pods.c.job, jobs.c.kind.is_not(None))
                is_kept = or_(jobs.c.removed.is_(None), jobs.c.removed >= limit)
                old = old.where(~select(jobs.c.uid).where(*theirs, is_kept).exists())
            deleted = await connection.execute(delete(table).where(tuple_(*keys).in_(old)))
            return deleted.rowcount

    @asynccontextmanager
    async def reading(self) -> AsyncIterator[AsyncConnection]:
        """Open a connection for reading."""
        try:
            async with self._engine.connect() as connection:
                yield connection
        except UNAVAILABLE as error:
            raise DatabaseUnavailable(cause_of(error)) from error

    async def _read(self, chosen: Select[Any]) -> list[dict[str, Any]]:
        async with self.reading() as connection:
            return await read_rows(connection, chosen)

    @asynccontextmanager
    async def transaction(self) -> AsyncIterator[AsyncConnection]:
        """Open a transaction that is committed at its end. SQLite has one at a time."""
        async with self._writing:
            try:
                async with self._engine.begin() as connection:
                    yield connection
            except OverflowError as error:
                raise RowRefused(str(error)) from error
            except UNAVAILABLE as error:
                if is_about_a_value(error):
                    raise RowRefused(cause_of(error)) from error
                raise DatabaseUnavailable(cause_of(error)) from error

    async def _continued(self, connection: AsyncConnection, batch: Batch, now: int) -> Mapping[Table, Mapping[str, Row]]:
        """Join the past states of each row of a batch with the stored ones. Return the stored rows by table and uid."""
        stored: dict[Table, Mapping[str, Row]] = {}
        for table in OF_STATE:
            rows = {row["uid"]: row for row in batch.rows.get(table, {}).values()}
            stored[table] = await self._stored(connection, table, rows) if rows else {}
            for uid, row in rows.items():
                row["states"] = continued(table, row, stored[table].get(uid), now)
        return stored

    async def _changed_hours(
        self, connection: AsyncConnection, batch: Batch, stored: Mapping[Table, Mapping[str, Row]], now: int
    ) -> dict[str, set[int]]:
        """Return the hours in which a batch changes the usage of pods, by uid of the pod."""
        hours: dict[str, set[int]] = defaultdict(set)
        is_settled = await settled_at(connection, self.cluster) is not None
        for row in batch.rows.get(pods, {}).values():
            old = stored[pods].get(row["uid"])
            new = merged(pods, old, row) if old else row
            before = intervals(old, None) if is_settled and old and old["job"] == new["job"] else []
            hours[row["uid"]].update(changed_hours(before, intervals(new, None), now))
        if uses := list(batch.rows.get(pod_use, {}).values()):
            of_pods = await self._stored(connection, pods, {use["pod"] for use in uses})
            for use in uses:
                measured = of_pods.get(use["pod"])
                time = held(measured) if measured else None
                hours[use["pod"]].update(measured_hours(use, time, now) if time else ())
        if rows := {row["uid"]: row for row in batch.rows.get(jobs, {}).values() if row["kind"] is None}:
            known = {uid: row for uid, row in stored[jobs].items() if row["version"]}
            whole = {uid: merged(jobs, row, known.get(uid, row)) for uid, row in rows.items()}
            passed_on = [uid for uid, job in whole.items() if job["version"] and _whose(known.get(uid)) != _whose(job)]
            if passed_on:
                of_jobs = select(pods).where(pods.c.cluster == self.cluster, pods.c.job.in_(passed_on))
                for pod in await read_rows(connection, of_jobs):
                    before = intervals(pod, known.get(pod["job"]))
                    hours[pod["uid"]].update(changed_hours(before, intervals(pod, whole[pod["job"]]), now))
        return hours

    async def _usage_of(
        self, connection: AsyncConnection, corrected: Mapping[str, Collection[int]], now: int
    ) -> dict[tuple[Any, ...], Counter[str]]:
        """Return the usage of pods in closed hours by the key of `usage_hours`. `corrected`: the hours by uid of the pod."""
        found: dict[tuple[Any, ...], Counter[str]] = defaultdict(Counter)
        if not corrected:
            return found
        tree = await queue_tree(connection, self.cluster)
        measuring = select(pod_use).where(pod_use.c.cluster == self.cluster, pod_use.c.pod.in_(list(corrected)))
        uses = await read_rows(connection, measuring)
        async for pod, job in charged_pods(connection, self.cluster, pods.c.uid.in_(list(corrected))):
            of_pod = [use for use in uses if use["pod"] == pod["uid"]]
            for hour in corrected[pod["uid"]]:
                usage = HourUsage(hour, now, tree)
                usage.add(pod, job, means_in(hour, of_pod).get(pod["uid"], {}))
                for row in usage.rows():
                    found[key_of(usage_hours, {"cluster": self.cluster, **row})].update({name: row[name] for name in SUMS})
        return found

    async def _correct(
        self,
        connection: AsyncConnection,
        old: Mapping[tuple[Any, ...], Counter[str]],
        new: Mapping[tuple[Any, ...], Counter[str]],
    ) -> None:
        """Add the difference between two usages to closed hours and their days."""
        names = [column.name for column in usage_hours.primary_key]
        rows = []
        for key in old.keys() | new.keys():
            change = {name: new.get(key, Counter())[name] - old.get(key, Counter())[name] for name in SUMS}
            if any(change.values()):
                rows.append({**dict(zip(names, key, strict=True)), **change})
        if rows:
            await connection.execute(addition(usage_hours, self._dialect, SUMS), rows)
            for day in sorted({row["hour"] // DAY * DAY for row in rows}):
                await self.settle_day(connection, day)

    async def _stored(self, connection: AsyncConnection, table: Table, uids: Iterable[str]) -> Mapping[str, Row]:
        chosen = select(table).where(table.c.cluster == self.cluster, table.c.uid.in_(list(uids)))
        return {row["uid"]: row for row in await read_rows(connection, chosen)}

    async def _note_hours(self, connection: AsyncConnection, hours: Iterable[int]) -> None:
        rows = [{"cluster": self.cluster, "hour": hour} for hour in hours]
        if rows:
            await connection.execute(replace(dirty_hours, self._dialect), rows)

    async def _settle_some(self, now: int) -> int:
        async with self.transaction() as connection:
            noted = select(dirty_hours.c.hour).where(dirty_hours.c.cluster == self.cluster)
            hours: Sequence[int] = (await connection.scalars(noted.order_by(dirty_hours.c.hour).limit(HOURS_AT_ONCE))).all()
            tree = await queue_tree(connection, self.cluster)
            for hour in hours:
                await self._settle_hour(connection, hour, now, tree)
            for day in sorted({hour // DAY * DAY for hour in hours}):
                await self.settle_day(connection, day)
            return len(hours)

    async def _settle_hour(self, connection: AsyncConnection, hour: int, now: int, tree: QueueTree) -> None:
        usage = HourUsage(hour, now, tree)
        of_pods = and_(pod_use.c.cluster == pods.c.cluster, pod_use.c.pod == pods.c.uid)
        measuring = select(pod_use).join_from(pods, pod_use, of_pods).where(*held_between(self.cluster, hour, hour + HOUR))
        means = means_in(hour, await read_rows(connection, measuring))
        async for pod, job in charged_pods(connection, self.cluster, *held_between(self.cluster, hour, hour + HOUR)):
            usage.add(pod, job, means.get(pod["uid"], {}))
        of_hour = (usage_hours.c.cluster == self.cluster, usage_hours.c.hour == hour)
        await connection.execute(delete(usage_hours).where(*of_hour))
        if rows := [{"cluster": self.cluster, **row} for row in usage.rows()]:
            await connection.execute(usage_hours.insert(), rows)
        await add_up_queues(connection, self.cluster, hour)
        await connection.execute(delete(dirty_hours).where(dirty_hours.c.cluster == self.cluster, dirty_hours.c.hour == hour))

    async def settle_day(self, connection: AsyncConnection, day: int) -> None:
        """Add up a day from its hours, in the transaction that changed the hours."""
        of_day = (usage_days.c.cluster == self.cluster, usage_days.c.day == day)
        await connection.execute(delete(usage_days).where(*of_day))
        whose = [column for column in usage_hours.primary_key if column is not usage_hours.c.hour]
        sums = [func.sum(usage_hours.c[name]) for name in SUMS]
        hours = usage_hours.c.hour.between(day, day + DAY - 1)
        chosen = select(*whose, *sums, literal(day)).where(usage_hours.c.cluster == self.cluster, hours).group_by(*whose)
        into = [*(column.name for column in whose), *SUMS, "day"]
        await connection.execute(usage_days.insert().from_select(into, chosen))
        await add_up_queue_days(connection, self.cluster, day)


async def cursor_time(connection: AsyncConnection, cluster: str, kind: str) -> int | None:
    """Return the time of a cursor; None when there is none."""
    at: int | None = await connection.scalar(select(cursors.c.at).where(cursors.c.cluster == cluster, cursors.c.kind == kind))
    return at


async def settled_at(connection: AsyncConnection, cluster: str) -> int | None:
    """Return the time until which usage is added up; None if usage was never added up."""
    return await cursor_time(connection, cluster, SETTLED)


async def closed_until(connection: AsyncConnection, cluster: str) -> int:
    """Return the start of the first hour that is not closed: the pods of earlier hours may be deleted."""
    return await cursor_time(connection, cluster, CLOSED) or 0


async def queue_tree(connection: AsyncConnection, cluster: str) -> QueueTree:
    """Return the queues over time."""
    return QueueTree(await read_rows(connection, select(queue_parents).where(queue_parents.c.cluster == cluster)))


async def charged_pods(
    connection: AsyncConnection, cluster: str, *where: ColumnElement[bool]
) -> AsyncGenerator[tuple[Row, Row | None]]:
    """Yield the pods that meet conditions, each with the Job to which its requests are charged, or None.

    A row of version 0 is none of a Job: a PodGroup made it, and nobody has seen its Job yet.
    """
    whose = [column.label(f"job_{column.name}") for column in WHOSE]
    is_job = and_(jobs.c.cluster == pods.c.cluster, jobs.c.uid == pods.c.job, jobs.c.kind.is_(None), jobs.c.version > 0)
    joined = select(pods, jobs.c.uid.label("job_uid"), *whose).join_from(pods, jobs, is_job, isouter=True)
    found = await connection.stream(joined.where(pods.c.cluster == cluster, *where))
    async for row in found.mappings():
        job = {column.name: row[f"job_{column.name}"] for column in WHOSE} if row["job_uid"] is not None else None
        yield dict(row), job


def _run(table: Table, alikes: Table, declared: Column[Any]) -> list[ColumnElement[Any]]:
    """Return the columns of `runs` for a table. `declared`: the estimate that is used when a row has no estimate."""
    estimate = func.coalesce(table.c.estimate, declared).label("estimate")
    return [*(table.c[name] for name in ("phase", "started", "ended", "removed")), estimate, alikes.c.alike, alikes.c.owner]


def _whose(job: Row | None) -> tuple[State, ...]:
    return states_of(jobs, job) if job else ()
