"""What a flow costs its controller: counted, not timed."""

import asyncio
import random
from collections import Counter
from types import ModuleType

import looptime
import pytest

from pyroclast.api.types import JOB_FLOWS, JOB_TEMPLATES
from pyroclast.lifecycle.flow import decide
from pyroclast_jobflow_controller.flow import controller

from .world import SPEC, World

ENTRIES = 10
PHASES = ("Pending", "Running", "Completed")


async def chain() -> World:
    """A flow of Jobs one after the other, to its end."""
    world = World(random.Random(1))
    loop = asyncio.get_running_loop()

    def live(name: str) -> None:
        for number, phase in enumerate(PHASES, 1):
            loop.call_later(0.3 * number, world.enter, name, phase)

    world.on_job = live
    flows = [{"name": f"e{at}", **({"dependsOn": {"targets": [f"e{at - 1}"]}} if at else {})} for at in range(ENTRIES)]
    for entry in flows:
        world.put(JOB_TEMPLATES, entry["name"], spec=SPEC)
    async with world.controller():
        world.put(JOB_FLOWS, "f", spec={"flows": flows})
        while (world.flow().get("status") or {}).get("state", {}).get("phase") != "Succeed":
            await asyncio.sleep(0.5)
    return world


@pytest.fixture
def calls(monkeypatch: pytest.MonkeyPatch) -> Counter[str]:
    """How often it is decided, and how often a status is worked out."""
    counted: Counter[str] = Counter()

    def count(module: ModuleType, name: str) -> None:
        function = getattr(module, name)

        def counting(*arguments: object) -> object:
            counted[name] += 1
            return function(*arguments)

        monkeypatch.setattr(module, name, counting)

    count(controller, "decide")
    count(decide, "status_of")
    return counted


def test_a_status_is_worked_out_when_it_may_be_written(calls: Counter[str]) -> None:
    with asyncio.Runner(loop_factory=lambda: looptime.patch_event_loop(asyncio.new_event_loop(), start=0)) as runner:
        world = runner.run(chain())
    assert len(world.created) == ENTRIES
    assert world.status_writes <= ENTRIES * len(PHASES)
    assert calls["decide"] <= 4 * ENTRIES
    assert calls["status_of"] <= world.status_writes + 3


def test_exit_codes_are_looked_for_in_failed_pods_alone_and_of_several_jobs_at_a_time() -> None:
    async def scenario() -> list[tuple[str, str]]:
        world, asked = World(random.Random(1)), []
        plain, loop = world.list, asyncio.get_running_loop()

        async def slow(kind: object, namespace: str = "", **selectors: str) -> tuple[list[object], str]:
            asked.append((selectors["label_selector"], selectors["field_selector"]))
            began.append(loop.time())
            await asyncio.sleep(1)
            return await plain(kind, namespace, **selectors)  # type: ignore[arg-type]

        began: list[float] = []
        world.list = slow  # type: ignore[method-assign, assignment]
        world.on_job = lambda name: loop.call_later(1, world.enter, name, "Failed") and None
        names = [f"e{at}" for at in range(ENTRIES)]
        asks = [
            {"name": f"s{at}", "switch": {"on": f"e{at}", "cases": [{"exitCode": 3, "entries": []}]}} for at in range(ENTRIES)
        ]
        for name in names:
            world.put(JOB_TEMPLATES, name, spec=SPEC)
        async with world.controller():
            world.put(JOB_FLOWS, "f", spec={"flows": [*({"name": name} for name in names), *asks]})
            while (world.flow().get("status") or {}).get("state", {}).get("phase") not in ("Succeed", "Failed"):
                await asyncio.sleep(0.5)
        assert max(began) - min(began) < 2
        return asked

    with asyncio.Runner(loop_factory=lambda: looptime.patch_event_loop(asyncio.new_event_loop(), start=0)) as runner:
        asked = runner.run(scenario())
    assert sorted({label for label, _ in asked}) == [f"volcano.sh/job-name=f-e{at}" for at in range(ENTRIES)]
    assert {fields for _, fields in asked} == {"status.phase=Failed"}


def test_entries_that_probe_the_same_target_share_the_list_of_its_pods() -> None:
    async def scenario() -> Counter[float]:
        world, asked = World(random.Random(1)), Counter[float]()
        plain, loop = world.list, asyncio.get_running_loop()

        async def counting(kind: object, namespace: str = "", **selectors: str) -> tuple[list[object], str]:
            assert selectors["field_selector"] == "status.phase=Running"
            asked[loop.time()] += 1
            return await plain(kind, namespace, **selectors)  # type: ignore[arg-type]

        world.list = counting  # type: ignore[method-assign, assignment]
        world.on_job = lambda name: loop.call_later(0.1, world.enter, name, "Running") and None
        world.put(JOB_TEMPLATES, "a", spec=SPEC)
        probe = {"tcpSocketList": [{"taskName": "t", "port": 80}]}
        waits = [{"name": f"w{at}", "dependsOn": {"targets": ["a"], "probe": probe}} for at in range(ENTRIES)]
        async with world.controller():
            world.put(JOB_FLOWS, "f", spec={"flows": [{"name": "a"}, *waits]})
            await asyncio.sleep(20)
        return asked

    with asyncio.Runner(loop_factory=lambda: looptime.patch_event_loop(asyncio.new_event_loop(), start=0)) as runner:
        asked = runner.run(scenario())
    assert 5 <= asked.total() <= 20  # not ten times as many
