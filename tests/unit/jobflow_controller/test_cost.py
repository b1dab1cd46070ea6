"""What a flow costs its controller: counted, not timed."""

import asyncio
import random
from collections import Counter
from types import ModuleType
from typing import Any

import pytest

from pyroclast.api.types import ResourceType
from pyroclast.lifecycle.flow import decide
from pyroclast_jobflow_controller.flow import controller

from .world import World

ENTRIES = 10
PHASES = ("Pending", "Running", "Completed")


class Asked(World):
    """Keeps by what pods were asked for, and when; an answer takes `seconds`."""

    def __init__(self, seconds: float) -> None:
        super().__init__(random.Random(1))
        self.seconds, self.began, self.asked = seconds, list[float](), list[dict[str, str]]()

    async def list(self, kind: ResourceType, namespace: str = "", **selectors: str) -> tuple[list[Any], str]:
        self.began.append(asyncio.get_running_loop().time())
        self.asked.append(selectors)
        await asyncio.sleep(self.seconds)
        return await super().list(kind, namespace, **selectors)


async def chain() -> World:
    """A flow of Jobs one after the other, to its end."""
    world = World(random.Random(1))
    loop = asyncio.get_running_loop()

    def live(name: str) -> None:
        for number, phase in enumerate(PHASES, 1):
            loop.call_later(0.3 * number, world.enter, name, phase)

    world.on_job = live
    flows = [{"name": f"e{at}", **({"dependsOn": {"targets": [f"e{at - 1}"]}} if at else {})} for at in range(ENTRIES)]
    async with world.controller():
        world.put_flow(*flows)
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


@pytest.mark.looptime
async def test_jobflow_status_is_computed_only_about_as_often_as_it_is_written(calls: Counter[str]) -> None:
    world = await chain()
    assert len(world.created) == ENTRIES
    assert world.status_writes <= ENTRIES * len(PHASES)
    assert calls["decide"] <= 4 * ENTRIES
    assert calls["status_of"] <= world.status_writes + 3


@pytest.mark.looptime
async def test_exit_codes_are_read_from_failed_pods_only_and_for_many_jobs_concurrently() -> None:
    world = Asked(1)
    world.on_job = lambda name: asyncio.get_running_loop().call_later(1, world.enter, name, "Failed") and None
    names = [f"e{at}" for at in range(ENTRIES)]
    asks = [{"name": f"s{at}", "switch": {"on": f"e{at}", "cases": [{"exitCode": 3, "entries": []}]}} for at in range(ENTRIES)]
    async with world.controller():
        world.put_flow(*({"name": name} for name in names), *asks)
        while (world.flow().get("status") or {}).get("state", {}).get("phase") not in ("Succeed", "Failed"):
            await asyncio.sleep(0.5)
    assert max(world.began) - min(world.began) < 2
    assert {each["label_selector"] for each in world.asked} == {f"volcano.sh/job-name=f-{name}" for name in names}
    assert {each["field_selector"] for each in world.asked} == {"status.phase=Failed"}


@pytest.mark.looptime
async def test_entries_that_probe_the_same_target_share_the_list_of_its_pods() -> None:
    world = Asked(0)
    world.on_job = lambda name: asyncio.get_running_loop().call_later(0.1, world.enter, name, "Running") and None
    probe = {"tcpSocketList": [{"taskName": "t", "port": 80}]}
    waits = [{"name": f"w{at}", "dependsOn": {"targets": ["a"], "probe": probe}} for at in range(ENTRIES)]
    async with world.controller():
        world.put_flow({"name": "a"}, *waits)
        await asyncio.sleep(20)
    assert {each["field_selector"] for each in world.asked} == {"status.phase=Running"}
    assert 5 <= len(world.asked) <= 20  # not ten times as many
