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
