"""Flows under unlucky circumstances: deleted at the wrong moment, mended after a long time."""

import asyncio
import random
from collections.abc import Mapping
from typing import Any

import pytest

from pyroclast.api.types import JOB_FLOWS, JOB_TEMPLATES, Key, ResourceType
from pyroclast.kube.client import PatchKind

from .world import SPEC, World


class Hasty(World):
    """A user deletes the flow just before it is held."""

    async def patch(self, kind: ResourceType, key: Key, body: Any, how: PatchKind, **more: Any) -> dict[str, Any]:
        if _holds(body) and (kind, key) in self.objects:
            self.remove(kind, key)
        return await super().patch(kind, key, body, how, **more)


def _holds(body: Any) -> bool:
    return isinstance(body, Mapping) and bool(body.get("metadata", {}).get("finalizers"))


@pytest.mark.looptime
async def test_nothing_is_made_for_a_flow_that_went_before_it_was_held() -> None:
    world = Hasty(random.Random(1))
    world.put(JOB_TEMPLATES, "a", spec=SPEC)
    world.put(JOB_FLOWS, "f", spec={"flows": [{"name": "a"}]})
    async with world.controller():
        await asyncio.sleep(10)
    assert (world.created, [kind.kind for kind, _ in world.objects]) == ([], ["JobTemplate"])
    assert world.events.said == []


@pytest.mark.looptime
async def test_a_patch_that_is_mended_is_tried_at_once() -> None:
    world = World(random.Random(1))
    world.put(JOB_TEMPLATES, "a", spec=SPEC)
    world.put(JOB_FLOWS, "f", spec={"flows": [{"name": "a", "patch": {"spec": {"tasks": 1}}}]})
    async with world.controller():
        await asyncio.sleep(500)
        assert world.flow()["status"]["conditions"]["f-a"]["reason"] == "PatchInvalid"
        world.change(JOB_FLOWS, "f", {"spec": {"flows": [{"name": "a", "patch": {"spec": {"maxRetry": 1}}}]}})
        await asyncio.sleep(1)
        assert world.created == ["f-a"]


@pytest.mark.looptime
async def test_a_template_that_is_mended_is_tried_at_once() -> None:
    world = World(random.Random(1))
    world.put(JOB_TEMPLATES, "a", spec={"tasks": [{"name": "x"}, {"name": "y"}]})
    world.put(JOB_FLOWS, "f", spec={"flows": [{"name": "a", "patch": {"spec": {"tasks": [{"replicas": 1}]}}}]})
    async with world.controller():
        await asyncio.sleep(500)
        assert world.flow()["status"]["conditions"]["f-a"]["reason"] == "PatchInvalid"
        world.change(JOB_TEMPLATES, "a", {"spec": {"tasks": [{"name": "x"}]}})
        await asyncio.sleep(1)
        assert world.created == ["f-a"]
