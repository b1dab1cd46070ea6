"""What queues had and were asked for, minute by minute, on both databases."""

from __future__ import annotations

import asyncio
from typing import Any

import msgspec
from sqlalchemy import select

from pyroclast.api.records.groups import Queue
from pyroclast.api.records.jobs import Job
from pyroclast_recorder.database.database import Database
from pyroclast_recorder.database.tables import jobs, queue_minutes
from pyroclast_recorder.facts.jobs import job_facts
from pyroclast_recorder.following.queue_sink import QueueSink, asked_of_queues, minute_facts
from pyroclast_recorder.following.writer import Writer

from .conftest import write

NOON = 1_795_521_600


def queue(name: str = "red", **status: Any) -> Queue:
    spec = {"capability": {"cpu": "10"}, "deserved": {"cpu": "5"}, "guarantee": {"resource": {"cpu": 2, "memory": "nonsense"}}}
    body = {"metadata": {"name": name, "uid": f"uid-{name}"}, "spec": spec, "status": {"allocated": {"cpu": "1500m"}, **status}}
    return msgspec.convert(body, Queue)


def task(replicas: int, cpu: str) -> dict[str, Any]:
    container = {"name": "c", "image": "i", "resources": {"requests": {"cpu": cpu, "memory": "1Gi"}}}
    return {"name": f"t{replicas}", "replicas": replicas, "template": {"spec": {"containers": [container]}}}


def test_job_requests_are_the_sum_over_all_its_pods() -> None:
    body = {"metadata": {"name": "j", "uid": "u"}, "spec": {"queue": "red", "tasks": [task(2, "500m"), task(3, "2")]}}
    facts = job_facts(msgspec.json.decode(msgspec.json.encode(body), type=Job), NOON, is_deleted=False)
    assert facts["requests"] == '{"cpu":7000,"memory":5120}'


def test_queue_minute_has_a_row_per_resource_specified_or_requested() -> None:
    asked = asked_of_queues(
        [("red", "Pending", '{"cpu":100}', 3), ("red", "Running", '{"cpu":1000,"gpu":7}', 1), (None, "", '{"cpu":1}', 1)]
    )
    assert asked["default"] == ({"cpu": 1}, {"cpu": 1})
    cpu, gpu = minute_facts(queue(), asked, NOON + 59)
    assert cpu == {
        "minute": NOON,
        "queue": "red",
        "resource": "cpu",
        "guarantee": 2000,
        "deserved": 5000,
        "capability": 10_000,
        "allocated": 1500,
        "requested": 1300,
        "waiting": 300,
    }
    assert (gpu["resource"], gpu["capability"], gpu["requested"], gpu["waiting"]) == ("gpu", None, 7, 0)


async def rows(database: Database) -> list[dict[str, Any]]:
    async with database.reading() as connection:
        chosen = select(queue_minutes).where(queue_minutes.c.cluster == database.cluster).order_by(queue_minutes.c.minute)
        return [dict(row) for row in (await connection.execute(chosen)).mappings()]


async def test_queue_row_is_written_once_per_minute_and_not_for_deleted_queues(database: Database) -> None:
    clock = [float(NOON)]
    job = {"namespace": "ns", "name": "a", "queue": "red", "phase": "Pending", "requests": '{"cpu":4000}'}
    columns = ({}, {"phase": "Running"}, {"ended": NOON}, {"removed": NOON})
    await write(database, [(jobs, 1, {**job, "uid": f"j{number}", **each}) for number, each in enumerate(columns)], NOON)
    writer = Writer(database, lambda: clock[0], lambda number, seconds: None)
    running = asyncio.create_task(writer.run())
    gone: list[str] = []
    sink = QueueSink(database, writer, lambda: clock[0], on_gone=gone.append)
    await sink.write()
    await sink.take(queue(), 7, NOON, is_deleted=False)
    await sink.take(queue("gone"), 8, NOON, is_deleted=False)
    await sink.take_list({"uid-red"}, None, NOON, NOON)
    for at, version, allocated in ((0, 9, "3"), (30, 10, "2"), (60, 11, "4"), (0, 9, "3")):
        clock[0] = float(NOON + at)
        await sink.take(queue(allocated={"cpu": allocated}), version, NOON, is_deleted=False)
        await sink.write()
        await writer.flushed()
    found = [(row["minute"] - NOON, row["allocated"], row["requested"], row["waiting"]) for row in await rows(database)]
    assert found == [(0, 3000, 8000, 4000), (60, 4000, 8000, 4000)]
    assert gone == ["gone"]
    await sink.take(queue(), 12, NOON, is_deleted=True)
    assert gone == ["gone", "red"]
    clock[0] = NOON + 120.0
    await sink.write()
    await writer.flushed()
    assert len(await rows(database)) == 2
    assert [await database.prune(queue_minutes, NOON + at, 10) for at in (3599, 3600, 3600)] == [0, 2, 0], "whole hours"
    running.cancel()
