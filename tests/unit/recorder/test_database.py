"""The tables: rows merge in any order, usage is added up anew, and both databases say the same."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Sequence
from typing import Any

import pytest
from alembic import command
from alembic.autogenerate import compare_metadata
from alembic.runtime.migration import MigrationContext
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from sqlalchemy import Connection, Table, func, select, text
from sqlalchemy.ext.asyncio import create_async_engine

from pyroclast_recorder.database.batches import Batch, Cursor, merged
from pyroclast_recorder.database.connections import DatabaseUnavailable, RowRefused, WrongUrl, check_url
from pyroclast_recorder.database.database import Database
from pyroclast_recorder.database.migration import UnknownSchema, configuration, migrate
from pyroclast_recorder.database.tables import (
    METADATA,
    gaps,
    job_phases,
    jobs,
    node_states,
    pods,
    reservations,
    usage_days,
    usage_hours,
)
from pyroclast_recorder.database.usage_rows import usage_rows
from pyroclast_recorder.facts.native_groups import GroupEnd
from pyroclast_recorder.following.writer import Writer
from pyroclast_recorder.hourly_usage import DAY, HOUR
from pyroclast_recorder.reading.queries import key_of
from tests.counts import examples
from tests.unit.ending import ended

from .conftest import CLUSTER, NewDatabase

Event = tuple[Table, int, dict[str, Any]]

PODS = [
    {"job": "j", "namespace": "ns", "requests": '{"cpu":1000}', "phase": "Pending"},
    {"job": "j", "namespace": "ns", "requests": '{"cpu":1000}', "phase": "Running", "bound": 100, "started": 101},
    {"job": "j", "namespace": "ns", "requests": '{"cpu":1000}', "phase": "Failed", "bound": 100, "released_high": 900},
    {"job": "j", "namespace": "ns", "requests": '{"cpu":1000}', "phase": "Failed", "bound": 100, "finished": 5000},
]
JOB = {"namespace": "ns", "name": "a", "created": 50}
EVENTS: list[Event] = [
    *((pods, version, {"uid": f"p{number}", **row}) for number in range(30) for version, row in enumerate(PODS, 1)),
    *((pods, 0, {"uid": f"p{number}", "released_low": 300 + number}) for number in range(30)),
    *((pods, 0, {"uid": f"p{number % 5}", "released_high": 100 * number}) for number in range(8, 24)),
    *((jobs, version, {"uid": "j", **JOB, "queue": f"q{version}", "phase": "Running"}) for version in range(3, 15)),
    *((jobs, 0, {"uid": "j", "let_in": 60 + number, "started": 99 - number}) for number in range(8)),
    *((job_phases, version, {"job": "j", "at": 99 + version, "name": "Running"}) for version in range(8)),
    *((gaps, 0, {"kind": "pods", "since": 10, "until": until, "why": "x"}) for until in range(30, 36)),
]
assert len(EVENTS) == 200


def claim(gone: int, at: int) -> dict[str, int]:
    return {"removed": at, "gone": gone}


CLAIMS: list[Event] = [
    *((jobs, version, {"uid": f"k{number}", **JOB}) for number in range(4) for version in (1, 3, 5 + number)),
    *((jobs, 0, {"uid": f"k{number}", **claim(gone, 100 + gone)}) for number in range(4) for gone in (2, 4, 6)),
    (jobs, 9, {"uid": "k0", **JOB, "removed": 190}),
    *((pods, 3 + number, {"uid": f"c{number}", **PODS[1], "gone": 0}) for number in range(4)),
    *((pods, 7, {"uid": f"c{number}", **PODS[2], "finished": 300, "gone": 0, "released_high": 310}) for number in (0, 3)),
    *(
        (pods, 0, {"uid": f"c{number}", "released_high": 100 + gone, **claim(gone, 100 + gone)})
        for number in range(4)
        for gone in (2, 4)
    ),
    (pods, 8, {"uid": "c3", **PODS[2], "released_high": 320, "removed": 320}),
]
"""Lists that claim that Jobs and pods are gone, events that take this back, deletions, and ends that pods report."""
EVENTS += CLAIMS


async def test_an_event_after_a_list_takes_back_that_the_object_is_gone(database: Database) -> None:
    await record(database, CLAIMS, [])
    found = await contents(database)
    assert {row["uid"]: row["removed"] for row in found["jobs"]} == {"k0": 190, "k1": 106, "k2": None, "k3": None}
    assert {row["uid"]: (row["removed"], row["released_high"]) for row in found["pods"]} == {
        "c0": (None, 310),
        "c1": (104, 104),
        "c2": (None, None),
        "c3": (320, 310),
    }


async def record(database: Database, events: Sequence[Event], sizes: Sequence[int], now: int = 9000) -> None:
    left = list(events)
    for size in [*sizes, len(left)]:
        batch = Batch(database.cluster)
        for table, version, row in left[:size]:
            batch.add(table, version, row)
        await database.write(batch, now)
        left = left[size:]


async def contents(database: Database) -> dict[str, list[dict[str, Any]]]:
    found = {}
    async with database.reading() as connection:
        for table in METADATA.sorted_tables:
            if table.name in {"dirty_hours", "cursors"}:
                continue
            chosen = select(table).where(table.c.cluster == database.cluster).order_by(*table.primary_key)
            rows = [dict(row) for row in (await connection.execute(chosen)).mappings()]
            found[table.name] = [{name: value for name, value in row.items() if name != "cluster"} for row in rows]
    return found


@given(chance=st.randoms(use_true_random=False))
@settings(max_examples=examples(20), suppress_health_check=[HealthCheck.function_scoped_fixture])
async def test_tables_are_equal_for_any_order_repetition_and_splitting_of_rows(
    new_database: NewDatabase, chance: random.Random
) -> None:
    """Two recorders write what they saw, in any order, in transactions of any size."""
    async with new_database() as expected:
        await record(expected, EVENTS, [])
        await expected.settle(9000)
        wanted = await contents(expected)
    assert wanted["usage_hours"], "there is something to compare"
    events = [*EVENTS, *chance.choices(EVENTS, k=40)]
    chance.shuffle(events)
    middle = chance.randrange(len(events))
    sizes = chance.choices(range(1, 40), k=8)
    async with new_database() as database:
        await asyncio.gather(record(database, events[:middle], sizes), record(database, events[middle:], sizes))
        await database.settle(9000)
        assert await contents(database) == wanted


columns = {column.name: st.none() | st.integers(0, 3) for column in pods.columns if not column.primary_key}
versions = st.integers(0, 3)


def _row(version: int, numbers: dict[str, Any]) -> dict[str, Any]:
    """A row as objects make them: what was read at one version is the same whoever read it."""
    late = dict.fromkeys(("job", "phase", "node", "exit_code"), version)
    first = {name: numbers[name] for name in ("bound", "finished", "released_low", "released_high")}
    return {**dict.fromkeys(pods.columns.keys()), "cluster": CLUSTER, "uid": "u", "version": version, **late, **first}


rows = st.builds(_row, versions, st.fixed_dictionaries(columns))


@given(rows, rows, rows)
@settings(max_examples=examples(400))
def test_merging_is_commutative_associative_and_idempotent(one: Any, two: Any, three: Any) -> None:
    assert merged(pods, one, two) == merged(pods, two, one)
    assert merged(pods, merged(pods, one, two), three) == merged(pods, one, merged(pods, two, three))
    assert merged(pods, one, one) == one


async def test_hourly_usage_is_recomputed_when_job_and_pod_rows_arrive_later(database: Database) -> None:
    begin = 10 * HOUR
    pod = {"uid": "p", "job": "j", "namespace": "ns", "requests": '{"cpu":1000}', "bound": begin}
    await record(database, [(pods, 1, pod)], [], now=begin + 60)
    await database.settle(begin + 60)
    assert await usage(database) == {("default", begin): 60_000}
    await database.settle(begin + HOUR + 600)
    assert await usage(database) == {("default", begin): 3_600_000, ("default", begin + HOUR): 600_000}
    job = {"uid": "j", "namespace": "ns", "name": "a", "queue": "red", "submitted_by": "ann"}
    await record(database, [(jobs, 2, job)], [], now=begin + HOUR + 600)
    await database.settle(begin + HOUR + 600)
    assert await usage(database) == {("red", begin): 3_600_000, ("red", begin + HOUR): 600_000}
    ended = {**pod, "finished": begin + 1800, "released_high": begin + HOUR + 700}
    await record(database, [(pods, 3, ended)], [], now=begin + HOUR + 700)
    await database.settle(begin + HOUR + 800)
    assert await usage(database) == {("red", begin): 1_800_000}


async def test_row_that_only_a_podgroup_made_is_no_job(database: Database) -> None:
    begin = 10 * HOUR
    pod = {"uid": "p", "job": "j", "namespace": "ns", "requests": '{"cpu":1000}', "bound": begin, "queue": "blue"}
    half = {"uid": "j", "let_in": begin}
    await record(database, [(pods, 1, pod), (jobs, 0, half)], [], now=begin + 60)
    await database.settle(begin + 60)
    assert await usage(database) == {("blue", begin): 60_000}, "the queue that the pod names"
    assert await database.answer(lambda connection: key_of(connection, database.cluster, "j")) is None
    job = {"uid": "j", "namespace": "ns", "name": "a", "queue": "red", "submitted_by": "ann"}
    await record(database, [(jobs, 2, job), (jobs, 0, {**half, "uid": "never"})], [], now=begin + 60)
    await database.settle(begin + 60)
    assert await usage(database) == {("red", begin): 60_000}
    assert await database.prune(jobs, begin + HOUR, 9) == 0, "the hour of the running pod is open"
    await record(database, [(pods, 3, {**pod, "finished": begin + 60, "released_high": begin + 60})], [], now=begin + 60)
    await database.settle(begin + 2 * HOUR)
    assert await database.prune(jobs, begin + HOUR, 9) == 1
    assert set(await database.still_there(jobs)) == {"j"}


async def usage(database: Database) -> dict[tuple[str, int], int]:
    async with database.reading() as connection:
        found = await connection.execute(select(usage_hours).where(usage_hours.c.cluster == database.cluster))
        return {(row.queue, row.hour): row.asked for row in found}


@pytest.mark.parametrize("jump", [-20 * HOUR, -61, 20 * HOUR])
async def test_a_clock_that_jumps_and_comes_back_changes_no_usage(database: Database, jump: int) -> None:
    begin = 100 * HOUR
    pod = {"uid": "p", "namespace": "ns", "requests": '{"cpu":1000}', "bound": begin, "queue": "red"}
    await record(database, [(pods, 1, pod)], [], now=begin)
    for now in (begin + 60, begin + 60 + jump, begin + 120):
        await database.settle(now)
    assert await usage(database) == {("red", begin): 120_000}


WINDOWS = [(0, 4 * DAY), (5 * HOUR, 3 * DAY + 7 * HOUR), (DAY, 2 * DAY - 1), (DAY, 2 * DAY - HOUR - 1), (2 * HOUR, 9 * HOUR + 5)]


async def test_daily_usage_equals_the_sum_of_its_hours(database: Database) -> None:
    chance = random.Random(5)
    for number in range(40):
        begin = chance.randrange(3 * DAY)
        row = {"uid": f"p{number}", "namespace": "ns", "requests": '{"cpu":1000,"memory":7}', "bound": begin}
        row |= {"released_low": begin, "released_high": begin + chance.randrange(2 * DAY), "queue": f"q{number % 3}"}
        await record(database, [(pods, 1, row)], [], now=4 * DAY)
        await database.settle(4 * DAY)
    for since, until in WINDOWS:
        sums = [await total(database, since, until, by_hour=by_hour) for by_hour in (False, True)]
        assert sums[0] == sums[1] != []
    assert await database.prune(usage_days, DAY - HOUR, 100) == 0, "an hour of it is kept"
    assert await database.prune(usage_days, DAY, 100) == 6


async def total(database: Database, since: int, until: int, *, by_hour: bool) -> list[tuple[Any, ...]]:
    rows = usage_rows(database.cluster, since, until, {"queue": ["q0", "q2"]}, by_hour=by_hour).c
    groups = (rows.queue, rows.resource)
    chosen = select(*groups, func.sum(rows.asked), func.sum(rows.doubtful)).group_by(*groups).order_by(*groups)
    async with database.reading() as connection:
        return [tuple(row) for row in await connection.execute(chosen)]


async def test_newest_cursor_of_a_batch_is_written(database: Database) -> None:
    batch = Batch(database.cluster)
    batch.move(Cursor("pods", "17", 100, 2))
    batch.move(Cursor("pods", "18", 101, 2))
    await database.write(batch, 101)
    assert await database.cursors() == {"pods": Cursor("pods", "18", 101, 2)}


async def test_batch_with_a_refused_row_writes_neither_its_other_rows_nor_its_cursor(database: Database) -> None:
    batch = Batch(database.cluster)
    batch.add(jobs, 1, {"uid": "j", "namespace": "ns", "name": "a"})
    batch.add(pods, 1, {"uid": "p", "namespace": "ns", "bound": 2**70})
    batch.move(Cursor("pods", "17", 100, 2))
    with pytest.raises(RowRefused):
        await database.write(batch, 101)
    assert (await database.still_there(jobs), await database.cursors()) == ({}, {})


async def test_a_row_that_no_database_can_take_is_left_out_and_the_others_are_written(database: Database) -> None:
    writer = Writer(database, lambda: 9000.0, lambda rows, seconds: None)
    for number, size in enumerate((1, 2**70, 3)):
        await writer.add(jobs, 1, {"uid": f"j{number}", "namespace": "ns", "name": "a", "gang_size": size})
    writer.move(Cursor("jobs", "7", 8999, 0))
    running = asyncio.create_task(writer.run())
    await writer.flushed()
    running.cancel()
    assert sorted(await database.still_there(jobs)) == ["j0", "j2"]
    assert (await database.cursors())["jobs"].resource_version == "7"


async def test_pending_rows_and_their_cursor_are_written_when_the_writer_is_cancelled(database: Database) -> None:
    write, is_away = database.write, [True]

    async def moody(batch: Batch, now: int) -> list[GroupEnd]:
        if is_away[0]:
            raise DatabaseUnavailable("the disk is full")
        return await write(batch, now)

    database.write = moody  # type: ignore[method-assign]
    writer = Writer(database, lambda: 9000.0, lambda rows, seconds: None)
    running = asyncio.create_task(writer.run())
    await writer.add(jobs, 1, {"uid": "early", "namespace": "ns", "name": "a"})
    async with asyncio.timeout(60):
        while writer.complaint is None:
            await asyncio.sleep(0.01)
    await writer.add(jobs, 2, {"uid": "late", "namespace": "ns", "name": "b"})
    writer.move(Cursor("jobs", "2", 8999, 0))
    is_away[0] = False
    await ended(running)
    assert sorted(await database.still_there(jobs)) == ["early", "late"]
    assert await database.cursors() == {"jobs": Cursor("jobs", "2", 8999, 0)}


async def test_old_pod_rows_are_pruned_only_after_their_hours_are_settled(database: Database) -> None:
    for number in range(30):
        end = number * HOUR
        row = {"uid": f"p{number}", "namespace": "ns", "requests": "{}", "bound": end, "finished": end, "released_high": end}
        await record(database, [(pods, 1, row)], [], now=30 * HOUR)
    assert await database.prune(pods, 20 * HOUR, 5) == 0, "hour 0 has not been added up"
    await database.settle(30 * HOUR)
    assert await database.prune(pods, 20 * HOUR, 5) == 5
    assert [await database.prune(pods, 20 * HOUR, 100), await database.prune(pods, 20 * HOUR, 100)] == [15, 0]
    assert {row["uid"] for row in (await contents(database))["pods"]} == {f"p{number}" for number in range(20, 30)}


@pytest.mark.parametrize(
    ("table", "state"), [(node_states, {"name": "n1"}), (reservations, {"nodes": "[]"})], ids=["node_states", "reservations"]
)
async def test_only_states_replaced_before_the_limit_are_pruned(database: Database, table: Table, state: dict[str, Any]) -> None:
    times = [("a", 1), ("a", 5), ("a", 9), ("b", 3)]
    await record(database, [(table, 1, {"uid": uid, "at": at, **state}) for uid, at in times], [])
    assert await database.prune(table, 8, 10) == 1
    assert [(row["uid"], row["at"]) for row in (await contents(database))[table.name]] == [("a", 5), ("a", 9), ("b", 3)]


@pytest.mark.parametrize("kind", ["sqlite", "postgresql"])
async def test_migrations_match_the_table_definitions_and_can_be_downgraded(kind: str, request: pytest.FixtureRequest) -> None:
    def check(opened: Connection) -> None:
        migrate(opened)
        migrate(opened)
        assert compare_metadata(MigrationContext.configure(opened), METADATA) == []
        command.downgrade(configuration(opened), "base")
        migrate(opened)
        for version, advice in (("9999", "run a later one, or restore a backup"), ("0003", "use an empty database")):
            opened.execute(text(f"UPDATE alembic_version SET version_num = '{version}'"))
            with pytest.raises(UnknownSchema, match=f"schema {version}, .*: .*{advice}"):
                migrate(opened)

    is_sqlite = kind == "sqlite"
    engine = create_async_engine(check_url("sqlite:///:memory:" if is_sqlite else request.getfixturevalue("postgres")))
    async with engine.begin() as opened:
        for statement in () if is_sqlite else ("CREATE SCHEMA empty", "SET LOCAL search_path TO empty"):
            await opened.execute(text(statement))
        await opened.run_sync(check)
        if not is_sqlite:
            await opened.execute(text("DROP SCHEMA empty CASCADE"))
    await engine.dispose()


async def test_unreachable_database_error_is_one_line_without_the_password() -> None:
    database = Database("postgresql://nobody:secret@127.0.0.1:1/none", CLUSTER)
    with pytest.raises(DatabaseUnavailable) as failure:
        await database.cursors()
    assert "secret" not in str(failure.value)
    assert "\n" not in str(failure.value)
    await database.close()


@pytest.mark.parametrize(
    ("url", "words"),
    [
        ("nonsense", "it is no URL"),
        ("mysql://host/db", "mysql is no database that the recorder knows"),
        ("sqlite://", "it names no file"),
        ("postgresql://host", "it names no database"),
    ],
)
def test_invalid_database_url_is_refused_with_the_reason(url: str, words: str) -> None:
    with pytest.raises(WrongUrl, match=words):
        check_url(url)
