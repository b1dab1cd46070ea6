"""Usage by interval: what a resize, a move and the pruning of rows change, in any order of events, and after a migration."""

from __future__ import annotations

import random
from collections import Counter
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from alembic import command
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from sqlalchemy import Table, func, select, text
from sqlalchemy.engine import make_url
from sqlalchemy.ext.asyncio import create_async_engine

from pyroclast_recorder.database.connections import check_url
from pyroclast_recorder.database.database import Database
from pyroclast_recorder.database.migration import configuration
from pyroclast_recorder.database.tables import jobs, pod_use, pods, queue_minutes, queue_parents, usage_days, usage_hours
from pyroclast_recorder.hourly_usage import DAY, HOUR
from pyroclast_recorder.past_states import KEPT, MOST, joined, seen_state, states_of
from pyroclast_recorder.queue_tree import QueueTree
from pyroclast_recorder.reading.queries import _sums
from tests.counts import examples

from .conftest import ON_SQLITE, NewDatabase, write

BEGIN = 20_000 * DAY
Event = tuple[Table, int, dict[str, Any], int]


def pod(uid: str = "p", cores: int = 1, end: int | None = None, **more: Any) -> dict[str, Any]:
    row = {"uid": uid, "namespace": "a", "name": uid, "queue": "q", "requests": f'{{"cpu":{cores}000}}', "bound": BEGIN}
    return {**row, **more} if end is None else {**row, **more, "finished": end, "released_high": end}


async def sums(database: Database, column: str = "asked") -> tuple[float, float]:
    """Return the core hours of all hours and of all days."""
    found = []
    async with database.reading() as connection:
        for table in (usage_hours, usage_days):
            mine = (table.c.cluster == database.cluster, table.c.resource == "cpu")
            found.append(float(await connection.scalar(select(func.sum(table.c[column])).where(*mine)) or 0) / 3600 / 1000)
    return found[0], found[1]


async def by_queue(database: Database) -> dict[tuple[str, str], int]:
    async with database.reading() as connection:
        chosen = select(usage_hours.c.queue, usage_hours.c.ancestors, func.sum(usage_hours.c.asked))
        found = await connection.execute(chosen.where(usage_hours.c.cluster == database.cluster).group_by("queue", "ancestors"))
        return {(queue, ancestors): int(amount) for queue, ancestors, amount in found if amount}


@pytest.mark.parametrize("settled", [True, False], ids=["settled on the way", "settled at the end"])
async def test_a_resize_changes_the_usage_after_it_and_not_before_it(database: Database, settled: bool) -> None:
    resize, end = BEGIN + 10 * HOUR + 1800, BEGIN + 11 * HOUR
    for version, (at, row) in enumerate(((BEGIN, pod()), (resize, pod(cores=8)), (end, pod(cores=8, end=end))), 1):
        await write(database, [(pods, version, row)], at)
        if settled:
            await database.settle(at)
    await database.settle(end)
    assert await sums(database) == (14.5, 14.5)
    (row,) = await database._read(select(pods).where(pods.c.cluster == database.cluster))
    assert _sums([row], end)[0]["cpu"] == 14.5 * 3600 * 1000, "the history of a Job says the same"


@ON_SQLITE
@pytest.mark.parametrize("last", [pods, pod_use, jobs], ids=["end", "measured use", "another owner"])
async def test_usage_of_pruned_pods_stays_when_a_long_pod_changes(database: Database, last: Table) -> None:
    job = {"uid": "j", "namespace": "b", "name": "j", "queue": "q", "submitted_by": "ann"}
    short = [(pods, 1, pod(f"p{number}", end=BEGIN + 10 * HOUR)) for number in range(9)]
    await write(database, [*short, (pods, 1, pod("long", job="j")), (jobs, 1, job)], BEGIN + 10 * HOUR)
    now = BEGIN + 11 * DAY
    await database.settle(now)
    before = await sums(database)
    assert before == (90 + 11 * 24, 90 + 11 * 24)
    assert await database.prune(pods, now - 9 * DAY, 100) == 9
    changes = {
        pods: {"uid": "long", **pod("long", end=now, job="j")},
        pod_use: {"pod": "long", "resource": "cpu", "since": BEGIN, "samples": 99, "mean": 500, "source": "prometheus"},
        jobs: {**job, "submitted_by": "bob"},
    }
    await write(database, [(last, 2, changes[last])], now)
    await database.settle(now)
    assert await sums(database) == before
    used = 11 * 12 if last is pod_use else 0
    assert await sums(database, "used") == (used, used), "a correction reaches closed hours"
    assert await database.prune(pod_use, now, 100) == 0, "a correction needs the use of the whole run"


@ON_SQLITE
async def test_a_pod_whose_object_is_there_is_not_pruned_so_that_a_new_list_does_not_add_it_up_twice(database: Database) -> None:
    """The pods of a completed Job stay until somebody deletes the Job. This pod reports no end of a container."""
    over = pod("p", phase="Failed", gone=0, released_high=BEGIN + HOUR)
    await write(database, [(pods, 1, over)], BEGIN + HOUR)
    now = BEGIN + 100 * DAY
    await database.settle(now)
    before = await sums(database)
    assert await database.prune(pods, now - 90 * DAY, 100) == 0
    await write(database, [(pods, 1, {**over, "released_high": now})], now)
    await database.settle(now)
    assert await sums(database) == before
    await write(database, [(pods, 0, {"uid": "p", "removed": now, "gone": 9})], now)
    assert await database.prune(pods, now, 100) == 0
    assert await database.prune(pods, now + HOUR, 100) == 0, "not before usage is added up until then"
    await database.settle(now + 2 * HOUR)
    assert await database.prune(pods, now + HOUR, 100) == 1
    assert await sums(database) == before


@ON_SQLITE
async def test_usage_stays_with_the_queue_and_the_ancestors_of_its_time(database: Database) -> None:
    def parent(of: str, name: str) -> tuple[Table, int, dict[str, Any]]:
        return queue_parents, 1, {"uid": of, "parent": name}

    job = {"uid": "j", "namespace": "a", "name": "j", "queue": "red", "submitted_by": "ann"}
    tree = [(each[0], 1, {**each[2], "at": BEGIN}) for each in (parent("red", "a"), parent("a", "root"), parent("b", "a"))]
    await write(database, [*tree, (jobs, 1, job), (pods, 1, pod(job="j"))], BEGIN)
    await write(database, [(queue_parents, 2, {**parent("red", "b")[2], "at": BEGIN + 600})], BEGIN + 600)
    await write(database, [(jobs, 2, {**job, "queue": "blue"})], BEGIN + 4000)
    await database.settle(BEGIN + 5000)
    assert await by_queue(database) == {("red", "root/a"): 600_000, ("red", "root/a/b"): 3_400_000, ("blue", ""): 1_000_000}


def test_ancestors_of_queues_in_a_cycle_are_named_once() -> None:
    tree = QueueTree([{"uid": uid, "at": 0, "parent": parent} for uid, parent in (("a", "b"), ("b", "a"))])
    assert [tree.ancestors(name, 9) for name in ("a", "b", "c", "root")] == ["b", "a", "", ""]


# -- any order ---------------------------------------------------------------------------------------------------------

cores = st.lists(st.integers(1, 3), min_size=1, max_size=5)
queues = st.lists(st.sampled_from(["q1", "q2"]), min_size=1, max_size=4)


def wanted_usage(events: list[Event], now: int) -> dict[str, int]:
    """The usage by queue of a model that counts each second and saw every event in order."""
    at = sorted({BEGIN, now, *(event[3] for event in events)})
    found: Counter[str] = Counter()
    of_job = [(each[3], each[2]["queue"]) for each in events if each[0] is jobs]
    for uid in ("p0", "p1"):
        of_pod = [(each[3], each[2]) for each in events if each[0] is pods and each[2]["uid"] == uid]
        end = next((row["finished"] for _, row in of_pod if "finished" in row), now)
        for since, until in pairwise(at):
            requests = [row["requests"] for seen, row in of_pod if seen <= since] or [of_pod[0][1]["requests"]]
            queue = [queue for seen, queue in of_job if seen <= since] or [of_job[0][1]]
            found[queue[-1]] += int(requests[-1][7:-1]) * max(0, min(until, end) - since)
    return dict(+found)


@given(chance=st.randoms(use_true_random=False), sizes=st.tuples(cores, cores), names=queues, is_long=st.booleans())
@settings(max_examples=examples(10), deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@ON_SQLITE
async def test_sums_equal_a_model_that_saw_everything_for_any_order_and_repetition(
    new_database: NewDatabase, chance: random.Random, sizes: tuple[list[int], list[int]], names: list[str], is_long: bool
) -> None:
    """Resizes, moves and ends in any order, written twice, in transactions of any size, with pruning between them."""
    now = BEGIN + (33 if is_long else 9) * HOUR
    times = iter(sorted(chance.sample(range(BEGIN, BEGIN + 8 * HOUR), 20)))
    events: list[Event] = []
    for number, of_pod in enumerate(sizes):
        moments = sorted(next(times) for _ in of_pod)
        for version, (at, size) in enumerate(zip(moments, of_pod, strict=True), 1):
            row = pod(f"p{number}", size, job="j", seen=at)
            if number and version == len(of_pod):
                row |= {"finished": at, "released_high": at}
            events.append((pods, version, row, at))
    for version, (at, name) in enumerate(zip(sorted(next(times) for _ in names), names, strict=True), 1):
        events.append((jobs, version, {"uid": "j", "namespace": "a", "name": "j", "queue": name, "seen": at}, at))
    shuffled = [*events, *events]
    chance.shuffle(shuffled)
    async with new_database() as database:
        while shuffled:
            some = [shuffled.pop() for _ in range(min(len(shuffled), chance.randint(1, 4)))]
            await write(database, [each[:3] for each in some], now)
            if chance.random() < 0.5:
                await database.settle(now)
                if not any(each[0] is pods and "finished" in each[2] for each in shuffled):
                    await database.prune(jobs, now - DAY if is_long else 0, 100)  # closes hours
        await database.settle(now)
        found: Counter[str] = Counter()
        for (queue, _), amount in (await by_queue(database)).items():
            found[queue] += amount
    assert dict(found) == wanted_usage(events, now)


@given(st.permutations(range(KEPT)), st.lists(st.integers(1, 3), min_size=KEPT, max_size=KEPT))
@settings(max_examples=examples(100))
def test_past_states_do_not_depend_on_the_order(order: list[int], sizes: list[int]) -> None:
    parts = [seen_state(pods, version, 10 * version, pod(cores=size)) for version, size in enumerate(sizes)]
    straight = turned = None
    for version in range(KEPT):
        straight, turned = joined(straight, parts[version]), joined(parts[order[version]], turned)
    assert straight == turned == joined(straight, turned)


def test_past_states_of_an_object_with_many_changes_are_bounded() -> None:
    def all_of(sizes: list[int]) -> tuple[str, int]:
        found = None
        for version, size in enumerate(sizes):
            found = joined(found, seen_state(pods, version, version, pod(cores=size)))
        assert found is not None
        return found, len(states_of(pods, {"states": found}))

    same, states = all_of([1] * 500 + [2] * 500)
    assert (states, len(same) < 500) == (2, True)
    assert all_of(list(range(1, 1000)))[1] == MOST


# -- the migration -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["sqlite", "postgresql"])
async def test_migration_keeps_the_rows_of_the_release_before_and_goes_on_from_them(
    kind: str, request: pytest.FixtureRequest, tmp_path: Path
) -> None:
    """A pod ran and another had ended when the recorder was upgraded. Later, the first is resized, and ends."""
    if kind == "sqlite":
        url = f"sqlite:///{tmp_path}/h.db"
    else:
        url = request.getfixturevalue("postgres")
        await run(url, ["CREATE DATABASE before"])
        url = str(make_url(url).set(database="before").render_as_string(hide_password=False))
    database = Database(url, "before")
    old = (Path(__file__).parent / "schema_0015.sql").read_text().splitlines()
    async with database.transaction() as connection:
        await connection.run_sync(lambda opened: command.upgrade(configuration(opened), "0015"))
        for statement in old[1:]:
            await connection.exec_driver_sql(statement)
    await database.migrate()
    assert (await sums(database), await sums(database, "used")) == ((3.0, 3.0), (0.5, 0.5)), "nothing is lost or added up again"
    larger = {**pod("runs", cores=3, job="j"), "queue": "red"}
    for version, at, row in ((2, 3, larger), (3, 4, {**larger, "finished": BEGIN + 4 * HOUR, "released_high": BEGIN + 4 * HOUR})):
        await write(database, [(pods, version, row)], BEGIN + at * HOUR)
    await database.settle(BEGIN + 5 * HOUR)
    assert await sums(database) == (7.0, 7.0)
    assert await by_queue(database) == {("q", ""): 3_600_000, ("red", ""): 6 * 3_600_000}
    await database.close()


OF_0015 = (
    "INSERT INTO jobs (cluster, uid, version, namespace, name, created, removed) VALUES ('c', 'gone', 7, 'a', 'j', 5, 90)",
    "INSERT INTO jobs (cluster, uid, version, namespace, name, created) VALUES ('c', 'there', 7, 'a', 'k', 5)",
    "INSERT INTO pods (cluster, uid, version, namespace, name, released_high) VALUES ('c', 'over', 7, 'a', 'over', 90)",
    "INSERT INTO queue_minutes (cluster, minute, queue, resource, version, allocated) VALUES ('c', 60, 'q', 'cpu', 1, 8000)",
)


async def test_migration_keeps_what_is_gone_until_an_event_of_a_later_version_says_otherwise(tmp_path: Path) -> None:
    database = Database(f"sqlite:///{tmp_path}/h.db", "c")
    async with database.transaction() as connection:
        await connection.run_sync(lambda opened: command.upgrade(configuration(opened), "0015"))
        for statement in OF_0015:
            await connection.exec_driver_sql(statement)
    await database.migrate()
    assert set(await database.still_there(jobs)) == {"there"}
    job = {"uid": "gone", "namespace": "a", "name": "j", "created": 5}
    await write(database, [(jobs, 7, job)], 100)
    assert set(await database.still_there(jobs)) == {"there"}, "the same version, seen twice"
    await write(database, [(jobs, 8, job), (pods, 7, {"uid": "over", "namespace": "a", "name": "over", "gone": 0})], 100)
    assert set(await database.still_there(jobs)) == {"there", "gone"}
    await database.settle(10 * DAY)
    assert await database.prune(pods, 10 * DAY, 9) == 0, "the pod is there"
    assert len(await database._read(select(queue_minutes))) == 1
    await database.close()


async def run(url: str, statements: list[str]) -> None:
    engine = create_async_engine(check_url(url), isolation_level="AUTOCOMMIT")
    async with engine.connect() as connection:
        for statement in statements:
            await connection.execute(text(statement))
    await engine.dispose()
