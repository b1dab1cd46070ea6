"""While the database takes no rows: history can be read, and every reader says until when it is known."""

from __future__ import annotations

import asyncio
from typing import Any

import aiohttp
import pytest
from prometheus_client import CollectorRegistry
from sqlalchemy import event

from pyroclast.kube.credentials.config import load_config
from pyroclast.kube.http.client import Client
from pyroclast.runtime.access import Access
from pyroclast_cli import programs
from pyroclast_cli.servers import UNREACHABLE
from pyroclast_recorder import app
from pyroclast_recorder.app import Recorder, RecorderMetrics
from pyroclast_recorder.database.batches import Batch, Cursor
from pyroclast_recorder.database.connections import DatabaseUnavailable
from pyroclast_recorder.database.database import WRITTEN, Database
from pyroclast_recorder.database.tables import job_phases, jobs
from pyroclast_recorder.following.writer import Writer
from pyroclast_recorder.reading.server import HistoryServer
from pyroclast_recorder.settings import RecorderSettings
from tests.unit.ending import ended

from .conftest import ON_SQLITE, write
from .laboratory import Laboratory

NOON = 1_795_521_600
FULL = "the database takes no rows: database or disk is full"
BEHIND = f"history is known until 2026-11-24T12:00:00Z only: {FULL}"


class Told:
    """Records the Events."""

    def __init__(self) -> None:
        self.events: list[tuple[str, str, str]] = []

    def event(self, about: Any, kind: str, reason: str, text: str) -> None:
        self.events.append((f"{about.kind}/{about.name}", reason, text))


@ON_SQLITE
async def test_a_full_disk_leaves_history_readable_and_every_reader_says_until_when_it_is_known(
    database: Database, capsys: pytest.CaptureFixture[str]
) -> None:
    job = {"namespace": "team", "name": "train", "queue": "red", "submitted_by": "ann", "created": NOON - 60, "phase": "Pending"}
    await write(database, [(jobs, 1, {**job, "uid": "u"})], NOON)
    now = [float(NOON)]
    writer = Writer(database, lambda: now[0], lambda rows, seconds: None)
    writing = asyncio.create_task(writer.run())
    writer.move(Cursor(WRITTEN, "", NOON, 0))
    await writer.flushed()
    pages = ["PRAGMA max_page_count = 1"]
    event.listen(database._engine.sync_engine, "begin", lambda connection: connection.exec_driver_sql(pages[0]))
    now[0] += 60
    for number in range(300):
        await writer.add(jobs, 1, {**job, "uid": f"u{number}", "message": "x" * 500})
    async with asyncio.timeout(60):
        while writer.complaint is None:
            await asyncio.sleep(0.02)
    assert await asyncio.to_thread(lambda: writer.unwritten_seconds) > 0, "metrics are read in another thread"
    async with Client(load_config("", master="http://127.0.0.1:1")) as nobody:

        async def settle() -> None:
            await database.settle(int(now[0]))

        access = Access(nobody, trusts_local=True)
        server = HistoryServer(database, access, lambda: now[0], settle, lambda: writer.complaint)
        await server.start("127.0.0.1:0")
        url = f"http://127.0.0.1:{server.port}"

        async def run(*words: str) -> tuple[int, str, str]:
            status = await asyncio.to_thread(programs.vcctl, [*words, "--recorder", url, "--master", "http://127.0.0.1:1"])
            printed = capsys.readouterr()
            return status, printed.out, printed.err

        status, out, err = await run("history", "-n", "team")
        assert (status, "train" in out, err) == (0, True, f"{BEHIND}\n")
        status, out, err = await run("history", "-n", "nowhere")
        assert (status, out) == (UNREACHABLE, "")
        assert err.endswith(f"nothing is recorded, and it is not known whether there was nothing: {BEHIND}\n")
        async with aiohttp.ClientSession() as session, session.get(f"{url}/api/v1/usage") as answer:
            assert (answer.status, (await answer.json())["behind"]) == (200, BEHIND), "what was added up before"
        pages[0] = "PRAGMA max_page_count = 4294967294"
        async with asyncio.timeout(60):
            await writer.flushed()
        assert (await run("history", "-n", "team", "-q", "red"))[2] == ""
        now[0] += 600
        said = (await run("history", "-n", "team"))[2]
        assert said.endswith("only: the recorder has written nothing since then\n"), "a replica that does not record sees it too"
        await server.stop()
    assert writer.unwritten_seconds < 1
    await ended(writing)


@ON_SQLITE
async def test_an_event_says_that_nothing_is_recorded_and_that_it_is_again(
    laboratory: Laboratory, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(app, "TELL_SECONDS", 0.05)
    monkeypatch.setattr(app, "TOLD_SECONDS", 0.1)
    told, registry = Told(), CollectorRegistry()
    write_, is_full = laboratory.database.write, {True}

    async def write(batch: Batch, now: int) -> Any:
        if is_full:
            raise DatabaseUnavailable("disk full")
        return await write_(batch, now)

    monkeypatch.setattr(laboratory.database, "write", write)
    metrics = RecorderMetrics(registry)
    recorder = Recorder(laboratory.client, laboratory.database, RecorderSettings(), metrics, events=told)  # type: ignore[arg-type]
    laboratory.running.append(asyncio.create_task(recorder.record(0)))

    async def until(reason: str) -> None:
        async with asyncio.timeout(60):
            while not told.events or told.events[-1][1] != reason:
                await asyncio.sleep(0.02)

    await until("NotRecording")
    assert recorder.unready() is None, "the replica stays in the Service"
    assert told.events[-1][0::2] == (
        "Lease/pyroclast-recorder",
        "history is not recorded now: the database takes no rows: disk full",
    )
    is_full.clear()
    await until("Recording")
    assert registry.get_sample_value("pyroclast_recorder_unwritten_seconds") is not None


@ON_SQLITE
async def test_a_row_that_the_database_refuses_is_left_out_and_counted_and_the_others_are_written(database: Database) -> None:
    left_out: list[tuple[str, str]] = []
    writer = Writer(database, lambda: float(NOON), lambda _, __: None, on_incident=lambda *told: left_out.append(told))
    batch = Batch(database.cluster)
    for number, message in enumerate(("a", {"no": "text"}, "b")):
        batch.add(job_phases, 1, {"job": "u", "at": number, "name": "Running", "message": message})
    await writer._write_once(batch)
    assert left_out == [("job_phases", "left_out")]
    assert [row["message"] for row in (await database.rows_of_job("u"))[job_phases]] == ["a", "b"]
