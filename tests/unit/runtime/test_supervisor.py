from __future__ import annotations

import asyncio

import pytest

from pyroclast.runtime.supervisor import Supervisor
from tests.unit.ending import ended

pytestmark = pytest.mark.looptime


async def forever(log: list[str], name: str, *, stop: float = 0.0) -> None:
    try:
        await asyncio.Event().wait()
    finally:
        await asyncio.sleep(stop)
        log.append(name)


async def test_a_task_that_returns_or_is_cancelled_is_reported_as_ended() -> None:
    async def end() -> None: ...

    for cancel in (False, True):
        supervisor = Supervisor()
        task = supervisor.spawn("worker", end())
        if cancel:
            task.cancel()
        assert str(await supervisor.died) == "worker ended"


async def test_a_task_with_may_return_may_end_but_its_error_is_reported() -> None:
    async def end() -> None: ...

    async def fail() -> None:
        raise ZeroDivisionError

    supervisor = Supervisor()
    supervisor.spawn("main", end(), may_return=True)
    await asyncio.sleep(1)
    assert not supervisor.died.done()
    supervisor.spawn("main", fail(), may_return=True)
    assert str(await supervisor.died) == "main died: ZeroDivisionError()"


async def test_stop_returns_the_names_of_tasks_that_do_not_stop_in_time() -> None:
    async def stubborn() -> None:
        while True:
            try:
                await asyncio.sleep(100)
            except asyncio.CancelledError:
                if asyncio.get_running_loop().time() > 50:
                    raise

    log: list[str] = []
    supervisor = Supervisor()
    supervisor.spawn("good", forever(log, "good"))
    task = supervisor.spawn("stubborn", stubborn())
    await asyncio.sleep(1)
    assert await supervisor.stop(5) == ["stubborn"]
    assert asyncio.get_running_loop().time() == 6
    await asyncio.sleep(50)
    await ended(task)
    assert log == ["good"]
