"""One reader, one object or one task does not stop the rest."""

from __future__ import annotations

import asyncio
import itertools
import time
from collections.abc import Sequence
from contextlib import suppress
from typing import Any

import aiohttp
import pytest
from sqlalchemy import event, select, text
from sqlalchemy.ext.asyncio import AsyncConnection

from pyroclast.api.records import Pod
from pyroclast.api.types import PODS
from pyroclast.runtime.access import Reader
from pyroclast_recorder.database import connections as module
from pyroclast_recorder.database.batches import Batch, Cursor
from pyroclast_recorder.database.connections import DatabaseUnavailable, TooSlow
from pyroclast_recorder.database.database import Database
from pyroclast_recorder.database.tables import composites, jobs, pods
from pyroclast_recorder.facts.native_groups import KIND, GroupEnd
from pyroclast_recorder.following import queue_sink
from pyroclast_recorder.following.stream import Stream
from pyroclast_recorder.following.writer import Writer
from pyroclast_recorder.reading import queries
from pyroclast_recorder.reading.outcomes import BY_REASON, STATES, state_of
from pyroclast_recorder.reading.questions import history_question
from pyroclast_recorder.reading.server import HistoryServer

from .conftest import ON_SQLITE, write
from .laboratory import Laboratory, pod

NOW = 1_800_000_000
ENDLESS = text("WITH RECURSIVE numbers(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM numbers) SELECT count(*) FROM numbers")


async def endless(connection: AsyncConnection) -> None:
    await connection.execute(ENDLESS)


async def ask(database: Database, query: dict[str, str]) -> tuple[list[dict[str, Any]], bool]:
    question = history_question(query, NOW)
    return await database.answer(lambda connection: queries.history(connection, database.cluster, question, ["a"], NOW))


async def test_the_database_filters_jobs_by_the_state_that_the_answer_shows(database: Database) -> None:
    reasons = (None, "Error", *(min(words) for _, words in BY_REASON))
    phases = (None, "", "Pending", "Running", "Aborting", "Completed", "Failed", "Aborted", "Terminated", "Strange")
    ends = ({}, {"ended": NOW}, {"removed": NOW})
    batch, states = Batch(database.cluster), {}
    for number, (phase, end, pair) in enumerate(itertools.product(phases, ends, itertools.combinations(reasons, 2))):
        row = {"uid": f"u{number}", "namespace": "a", "name": f"j{number}", "phase": phase, "created": NOW - number, **end}
        batch.add(jobs, 1, row)
        for at, reason in enumerate(pair):
            batch.add(pods, 1, {"uid": f"p{number}-{at}", "job": row["uid"], "reason": reason})
        states[row["name"]] = state_of({"ended": None, "removed": None, **row}, set(pair))
    await database.write(batch, NOW)
    for state in (*STATES, "Strange", "nobody"):
        items, is_cut = await ask(database, {"state": state.upper(), "limit": "10000"})
        assert {item["name"] for item in items} == {name for name, each in states.items() if each == state}, state
        assert not is_cut
    items, is_cut = await ask(database, {"state": "Evicted", "limit": "2"})
    assert ([item["state"] for item in items], is_cut) == (["Evicted"] * 2, True)


@ON_SQLITE
@pytest.mark.parametrize("size", [50, 3000])
async def test_the_number_of_statements_does_not_grow_with_the_history(database: Database, size: int) -> None:
    job = {"namespace": "a", "name": "j", "phase": "Completed"}
    await write(database, [(jobs, 1, {**job, "uid": f"u{number}", "created": NOW - number}) for number in range(size)], NOW)
    statements: list[str] = []
    event.listen(database._answers.engine.sync_engine, "before_cursor_execute", lambda *given: statements.append(given[2]))
    assert await ask(database, {"state": "Failed", "limit": "1"}) == ([], False)
    assert len([each for each in statements if each.startswith("SELECT")]) == 1


async def test_a_slow_answer_ends_in_time_and_its_connection_is_free_again(
    database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    await ask(database, {})
    monkeypatch.setattr(module, "ANSWER_SECONDS", 0.3)
    began = time.monotonic()
    answers = await asyncio.gather(*(database.answer(endless) for _ in range(module.ANSWERS_AT_ONCE)), return_exceptions=True)
    assert {type(each) for each in answers} == {TooSlow}
    assert time.monotonic() - began < 5
    monkeypatch.setattr(module, "ANSWER_SECONDS", 5.0)
    for _ in range(module.ANSWERS_AT_ONCE + 1):
        assert await ask(database, {}) == ([], False)


async def test_the_recorder_writes_while_all_connections_of_requests_are_busy(
    database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "WAIT_SECONDS", 0.2)
    slow = [asyncio.create_task(database.answer(endless)) for _ in range(module.ANSWERS_AT_ONCE)]
    await asyncio.sleep(0.3)
    async with asyncio.timeout(5):
        await write(database, [(jobs, 1, {"uid": "u", "namespace": "a", "name": "j", "created": NOW})], NOW)
    with pytest.raises(DatabaseUnavailable):  # and not an error that would end the process
        await ask(database, {})
    for task in slow:
        task.cancel()
    await asyncio.gather(*slow, return_exceptions=True)
    async with asyncio.timeout(5):
        assert [item["name"] for item in (await ask(database, {}))[0]] == ["j"], "a cancelled request frees its connection"


class Users:
    """Knows a user by the query parameter `as`."""

    async def reader(self, request: Any) -> Any:
        return _User(request.headers["X-User"])


class _User(Reader):
    def __init__(self, name: str) -> None:
        self._name = name

    @property
    def name(self) -> str:
        return self._name

    async def visible(self, namespaces: Any) -> list[str]:
        return list(namespaces)


@ON_SQLITE
async def test_slow_requests_of_one_user_leave_connections_to_other_users(
    database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def history(connection: AsyncConnection, _cluster: str, question: Any, *_: Any) -> Any:
        if question.name == "slow":
            await endless(connection)
        return [], False

    async def settle() -> None:
        pass

    monkeypatch.setattr(module, "ANSWER_SECONDS", 2.0)
    monkeypatch.setattr(queries, "history", history)
    server = HistoryServer(database, Users(), lambda: float(NOW), settle)  # type: ignore[arg-type]
    await server.start("127.0.0.1:0")
    async with aiohttp.ClientSession(f"http://127.0.0.1:{server.port}") as session:

        async def get(user: str, name: str) -> int:
            async with session.get(f"/api/v1/jobs?name={name}", headers={"X-User": user}) as answer:
                return answer.status

        slow = [asyncio.create_task(get("eve", "slow")) for _ in range(8)]
        await asyncio.sleep(0.3)
        async with asyncio.timeout(1):
            assert await get("ann", "quick") == 200
        assert await asyncio.wait_for(asyncio.shield(slow[0]), 10) == 503
        for task in slow:
            task.cancel()
        await asyncio.gather(*slow, return_exceptions=True)
    await server.stop()


@ON_SQLITE
@pytest.mark.parametrize("levels", [4, 600])
async def test_a_deep_tree_of_groups_costs_a_bounded_number_of_statements(database: Database, levels: int) -> None:
    batch = Batch(database.cluster)
    for number in range(levels):
        above = {"parent": f"c{number - 1}"} if number else {}
        row = {
            "uid": f"c{number}",
            "namespace": "a",
            "name": f"c{number}",
            "min_groups": 1,
            "created": NOW + number,
            "queue": "q",
        }
        batch.add(composites, number + 1, {**row, **above})
    group = {"uid": "g", "kind": KIND, "namespace": "a", "name": "g", "parent": f"c{levels - 1}", "created": NOW + levels}
    batch.add(jobs, 1, {**group, "gang_size": 1, "queue": "q"})
    batch.add(
        pods, 1, {"uid": "p", "namespace": "a", "name": "p", "pod_group": "g", "created": NOW, "bound": NOW, "requests": "{}"}
    )
    statements: list[str] = []
    event.listen(database._engine.sync_engine, "before_cursor_execute", lambda *given: statements.append(given[2]))
    await database.write(batch, NOW + 2 * levels)
    assert len(statements) < 100
    async with database.reading() as connection:
        found = await connection.scalar(select(composites.c.alike).where(composites.c.uid == "c0"))
    assert (found is not None) == (levels == 4)


class PoorDatabase:
    """A database that fails in an unexpected way for one row."""

    cluster = "c"

    def __init__(self) -> None:
        self.rows: list[str] = []
        self.cursors: list[str] = []

    async def write(self, batch: Batch, _now: int) -> Sequence[GroupEnd]:
        uids = [row["uid"] for row in batch.rows.get(jobs, {}).values()]
        if "bad" in uids:
            raise KeyError("bad")
        self.rows += uids
        self.cursors += batch.cursors
        return []


async def test_a_row_that_fails_unexpectedly_is_left_out_and_the_others_are_written() -> None:
    database = PoorDatabase()

    async def traces(_: Batch) -> None:
        raise RuntimeError("no trace")

    writer = Writer(database, lambda: float(NOW), lambda *_: None, traces)  # type: ignore[arg-type]
    task = asyncio.create_task(writer.run())
    for uid in ("a", "bad", "b"):
        await writer.add(jobs, 1, {"uid": uid})
    writer.move(Cursor("jobs", "9", NOW, 0))
    async with asyncio.timeout(5):
        await writer.flushed()
    assert (database.rows, database.cursors) == (["a", "b"], ["jobs"])
    task.cancel()
    with suppress(asyncio.CancelledError):
        await task


class PickySink:
    """Makes no rows of one pod."""

    def __init__(self) -> None:
        self.names: set[str] = set()

    async def take(self, record: Pod, *_: Any, is_deleted: bool) -> None:
        if record.metadata.name == "bad":
            raise RuntimeError("an object that nobody expected")
        self.names.add(record.metadata.name)

    async def take_list(self, *_: Any) -> None: ...

    async def tell_gap(self, *_: Any) -> None: ...

    async def move(self, _: Cursor) -> None: ...


@ON_SQLITE
async def test_an_object_that_fails_unexpectedly_is_left_out_and_the_others_are_followed(laboratory: Laboratory) -> None:
    sink, incidents = PickySink(), []
    await laboratory.put(pod("bad"))
    await laboratory.put(pod("a"))
    stream = Stream(laboratory.client, PODS, Pod, sink, None, on_incident=lambda _, what: incidents.append(what))
    task = asyncio.create_task(stream.run())
    laboratory.start()
    async with asyncio.timeout(20):
        while "a" not in sink.names:
            await asyncio.sleep(0.02)
        await laboratory.end("bad")
        await laboratory.put(pod("b"))
        while "b" not in sink.names:
            await asyncio.sleep(0.02)
    assert set(incidents) == {"left_out"}
    task.cancel()


@ON_SQLITE
async def test_a_task_that_fails_unexpectedly_is_run_again_and_the_others_go_on(
    laboratory: Laboratory, monkeypatch: pytest.MonkeyPatch
) -> None:
    runs: list[None] = []

    async def run(_: Any) -> None:
        runs.append(None)
        if len(runs) == 1:
            raise ZeroDivisionError
        await asyncio.Event().wait()

    monkeypatch.setattr(queue_sink.QueueSink, "run", run)
    laboratory.start()
    await laboratory.put(pod("a"))
    await laboratory.until(lambda rows: "a" in rows)
    async with asyncio.timeout(10):
        while len(runs) < 2:
            await asyncio.sleep(0.1)
    assert not laboratory.running[0].done()
