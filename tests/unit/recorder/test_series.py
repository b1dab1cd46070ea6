"""What queues and nodes had over time: minutes, hours and days say the same, and what nobody recorded is not zero."""

from __future__ import annotations

from typing import Any

import aiohttp
import pytest

from pyroclast.kube.credentials.config import load_config
from pyroclast.kube.http.client import Client
from pyroclast.runtime.access import Access
from pyroclast.views.usage import queue_series_rows
from pyroclast_recorder.database.database import Database
from pyroclast_recorder.database.tables import node_states, pod_use, pods, queue_hours, queue_minutes
from pyroclast_recorder.hourly_usage import DAY, HOUR, MINUTE
from pyroclast_recorder.reading.questions import BadQuestion, series_question
from pyroclast_recorder.reading.series import nodes_over_time, series
from pyroclast_recorder.reading.server import HistoryServer

from .conftest import ON_SQLITE, write

BEGIN = 20_000 * DAY
NOW = BEGIN + 3 * HOUR


def minute(at: int, allocated: int, **more: Any) -> tuple[Any, int, dict[str, Any]]:
    row = {"minute": at, "queue": "q", "resource": "cpu", "guarantee": 0, "deserved": 8000, "requested": 9000, "waiting": 1000}
    return queue_minutes, 1, {**row, "allocated": allocated, **more}


async def asked(database: Database, now: int = NOW, **query: str) -> dict[str, Any]:
    question = series_question(query, now)
    async with database.reading() as connection:
        return await series(connection, database.cluster, question, now)


async def record(database: Database) -> None:
    """Two minutes in the first hour, one in the third, none between; a measured pod, and an evicted one."""
    rows = [minute(BEGIN, 2000), minute(BEGIN + MINUTE, 4000, used=700), minute(BEGIN + 2 * HOUR, 6000)]
    pod = {"namespace": "a", "queue": "q", "requests": '{"cpu":1000}', "bound": BEGIN}
    over = {**pod, "finished": BEGIN + MINUTE, "released_high": BEGIN + MINUTE}
    rows += [(pods, 1, {**pod, "uid": "runs", "name": "runs"}), (pods, 1, {**over, "uid": "e", "name": "e", "evicted_for": "x"})]
    rows.append((pod_use, 1, {"pod": "runs", "resource": "cpu", "since": BEGIN, "samples": 9, "mean": 500, "source": "x"}))
    rows += [(node_states, 1, {"uid": "n", "at": at, "name": "n", "allocatable": '{"cpu":8000}', "is_down": down}) for at, down in
             ((BEGIN, 0), (BEGIN + HOUR, 1))]  # fmt: skip
    await write(database, rows, NOW)
    await database.settle(NOW)


async def test_an_hour_is_the_mean_of_its_minutes_and_an_unrecorded_hour_is_unknown(database: Database) -> None:
    await record(database)
    found = await asked(database, since="3h", step="hour")
    (queue,) = found["queues"]
    assert (queue["queue"], queue["resource"]) == ("q", "cpu")
    assert queue["allocated"] == [3000, None, 6000, None]
    assert queue["used"] == [500, 500, 500, None], "the mean over the hour, from the intervals of the pods"
    assert queue["capability"] == [None] * 4
    assert found["evictions"] == [{"queue": "q", "pods": [1, None, 0, None]}]
    assert found["nodes"] == [
        {"resource": "", "total": [1000, 1000, 1000, None], "away": [0, 1000, 1000, None]},
        {"resource": "cpu", "total": [8000, 8000, 8000, None], "away": [0, 8000, 8000, None]},
    ]
    minutes = await asked(database, since="3h", step="minute", queue="q", resource="cpu")
    assert minutes["queues"][0]["allocated"][:3] == [2000, 4000, None]
    assert minutes["queues"][0]["used"][:3] == [None, 700, None]
    assert minutes["evictions"][0]["pods"][:3] == [0, 1, None]
    assert "nodes" not in minutes, "a queue has no nodes"


async def test_hours_and_days_stay_when_their_minutes_are_pruned_and_an_hour_is_added_up_again(database: Database) -> None:
    await record(database)
    later = NOW + 20 * DAY
    await database.settle(later)
    before = [await asked(database, later, since="30d", step=step) for step in ("hour", "day")]
    assert before[1]["queues"][0]["allocated"][9:11] == [None, 4000], "three minutes, each with the same weight"
    assert await database.prune(queue_minutes, later - DAY, 100) == 3
    async with database.transaction() as connection:
        await database._note_hours(connection, [BEGIN])
    await database.settle(later)
    assert [await asked(database, later, since="30d", step=step) for step in ("hour", "day")] == before
    assert await database.prune(queue_hours, later - DAY, 100) > 0
    await database.settle(later)
    assert await asked(database, later, since="30d", step="day") == before[1]


def test_the_step_follows_from_the_time_and_too_many_values_are_refused() -> None:
    assert [series_question({"since": since}, NOW).step for since in ("24h", "90d", "104w")] == [MINUTE, HOUR, DAY]
    with pytest.raises(BadQuestion, match=r"10081 values, and the most are 3000; ask for a shorter time, or step=hour"):
        series_question({"since": "7d", "step": "minute"}, NOW)
    with pytest.raises(BadQuestion, match='there is no "week"'):
        series_question({"step": "week"}, NOW)


def test_nodes_that_come_and_go_within_a_step_count_for_their_time() -> None:
    states = [
        {"uid": "a", "at": 30, "allocatable": '{"cpu":4}', "is_down": 0},
        {"uid": "a", "at": 90, "allocatable": "{}", "is_down": 0},
        {"uid": "b", "at": 0, "allocatable": '{"cpu":4}', "is_down": 1},
    ]
    assert nodes_over_time(states[:2], range(0, 180, 60), 150)[0]["total"] == [1000, 500, 0], "nothing is known before"
    found = nodes_over_time(states, range(0, 180, 60), 150, "cpu")
    assert found == [
        {"resource": "", "total": [1500, 1500, 1000], "away": [1000, 1000, 1000]},
        {"resource": "cpu", "total": [6, 6, 4], "away": [4, 4, 4]},
    ]


@ON_SQLITE
async def test_series_are_served_to_every_user_of_the_cluster_and_refuse_unknown_parameters(database: Database) -> None:
    await record(database)
    async with Client(load_config("", master="http://127.0.0.1:1")) as nobody:

        async def settle() -> None:
            raise AssertionError("usage is not asked for")

        server = HistoryServer(database, Access(nobody, trusts_local=True), lambda: float(NOW), settle)
        await server.start("127.0.0.1:0")
        address = f"http://127.0.0.1:{server.port}/api/v1/series"
        async with aiohttp.ClientSession() as session, session.get(f"{address}?since=3h&step=hour&queue=q") as answer:
            found = await answer.json()
        async with aiohttp.ClientSession() as session, session.get(f"{address}?by=hour") as refused:
            assert (refused.status, "by" in (await refused.json())["message"]) == (400, True)
        await server.stop()
    assert (found["stepSeconds"], len(found["times"]), found["behind"]) == (HOUR, 4, None)
    assert queue_series_rows(found)[0] == {
        "at": "2024-10-04T00:00:00Z",
        "queue": "q",
        "resource": "cpu",
        "guarantee": "0",
        "deserved": "8",
        "capability": None,
        "allocated": "3",
        "requested": "9",
        "waiting": "1",
        "used": "500m",
        "evictions": 1,
    }
