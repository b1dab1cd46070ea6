"""A replica that stands by: what it keeps, and what becomes of that when it takes over."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from prometheus_client import CollectorRegistry

from pyroclast.api.types import PODS, Key
from pyroclast_recorder.app import Recorder, RecorderMetrics
from pyroclast_recorder.database.batches import Cursor
from pyroclast_recorder.database.database import Database
from pyroclast_recorder.database.tables import gaps, pods
from pyroclast_recorder.following.standby import Keeper, Standby
from pyroclast_recorder.following.writer import Writer
from pyroclast_recorder.settings import RecorderSettings

from .conftest import ON_SQLITE
from .laboratory import Laboratory, ended, pod


async def seen(laboratory: Laboratory, standby: Standby) -> None:
    """Wait until who stands by has seen what became of the pods."""
    latest = max((int(pod["metadata"]["resourceVersion"]) for pod in (await laboratory.client.list(PODS))[0]), default=0)
    async with asyncio.timeout(60):
        while (kept := standby.keepers.get(PODS)) is None or kept.cursor is None or int(kept.cursor.resource_version) < latest:
            await asyncio.sleep(0.05)


@pytest.mark.parametrize("is_forgotten", [False, True])
async def test_standby_takeover_writes_pod_changes_since_the_leader_stopped_even_after_compaction(
    laboratory: Laboratory, is_forgotten: bool
) -> None:
    await laboratory.put(pod("goes"))
    laboratory.start()
    await laboratory.until(lambda rows: "goes" in rows and rows["goes"]["phase"] == "Running")
    while "pods" not in await laboratory.database.cursors():
        await asyncio.sleep(0.05)
    other = Recorder(laboratory.client, laboratory.database, RecorderSettings(), RecorderMetrics(CollectorRegistry()))
    standby = other._standby
    standing = asyncio.create_task(standby.run())
    await laboratory.stop()
    await laboratory.end("goes", **ended("2026-01-01T00:10:00Z"))
    await laboratory.client.delete(PODS, Key("default", "goes"))
    await laboratory.put(pod("between"))
    await seen(laboratory, standby)
    if is_forgotten:
        laboratory.server.compact()
    await laboratory.put(pod("later"))
    await seen(laboratory, standby)
    assert (await laboratory.rows(pods))["goes"]["finished"] is None, "who stands by writes nothing"
    laboratory.running.append(asyncio.create_task(other.record(0)))
    rows = await laboratory.until(lambda rows: "later" in rows and rows["goes"]["finished"])
    assert rows["goes"]["finished"] - rows["goes"]["bound"] == 600
    assert "pods" not in await laboratory.rows(gaps)
    await asyncio.wait_for(asyncio.wait([standing]), 10)
    assert standing.exception() is None


def row(number: int) -> dict[str, Any]:
    return {"uid": f"p{number}", "namespace": "ns", "name": "a", "requests": "{}"}


@ON_SQLITE
async def test_standby_buffer_keeps_only_the_rows_of_the_last_ten_minutes(database: Database) -> None:
    clock = [0.0]
    keeper = Keeper("c", lambda: clock[0], Cursor("pods", "1", 0, 0))
    for number in range(100):
        clock[0] = number * 30.0
        await keeper.add(pods, number, row(number))
    keeper.move(Cursor("pods", "99", 2970, 0))
    assert keeper.reaches(Cursor("pods", "78", 2970 - 600, 0))
    assert not keeper.reaches(Cursor("pods", "50", 1500, 0)), "the rows between are gone"
    assert not keeper.reaches(Cursor("pods", "78", 2970 - 600, 1)), "the history went back since"
    writer = Writer(database, lambda: clock[0], lambda rows, seconds: None)
    running = asyncio.create_task(writer.run())
    await keeper.hand_over(writer)
    await writer.flushed()
    running.cancel()
    kept = sorted(int(uid[1:]) for uid in await database.still_there(pods))
    assert kept[-1] == 99
    assert 100 - 20 - 5 <= kept[0] <= 100 - 20


async def test_standby_buffer_over_its_row_limit_is_emptied_and_covers_no_earlier_cursor() -> None:
    clock = [0.0]
    keeper = Keeper("c", lambda: clock[0], Cursor("pods", "1", 0, 0))
    for number in range(50_001):
        await keeper.add(pods, 1, row(number))
    keeper.move(Cursor("pods", "9", 1, 0))
    assert not keeper.reaches(Cursor("pods", "1", 0, 0))
    assert len(keeper._lots) == 0


async def test_standby_buffer_covers_only_cursors_after_the_list_that_follows_a_gap() -> None:
    keeper = Keeper("c", lambda: 100.0, Cursor("pods", "1", 0, 0))
    keeper.move(Cursor("pods", "5", 90, 0))
    assert keeper.reaches(Cursor("pods", "2", 50, 0))
    await keeper.add(pods, 1, row(1))
    keeper.begin(None)
    assert not keeper.reaches(Cursor("pods", "2", 50, 0))
    keeper.begin(60)
    keeper.move(Cursor("pods", "7", 95, 0))
    assert [keeper.reaches(Cursor("pods", "2", at, 0)) for at in (50, 60, 70)] == [False, False, True]
