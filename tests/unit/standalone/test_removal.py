"""What a user takes away from a cluster is gone when the command says so; what does not go is named."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import pytest

from pyroclast.api.types import CONFIG_MAPS, Key
from pyroclast.kube.basics.errors import NotFound
from pyroclast.kube.credentials.config import load_config
from pyroclast.kube.http.client import Client, PatchKind
from pyroclast_standalone.apiserver.running import running_server
from pyroclast_standalone.directory import CommandError
from pyroclast_standalone.installation import remove

HELD = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a", "finalizers": ["example.org/held"]}}
KEY = Key("default", "a")


@pytest.fixture
async def served() -> AsyncIterator[Client]:
    async with running_server() as server, Client(load_config(str(server.kubeconfig))) as client:
        yield client


async def _release(client: Client) -> None:
    while "deletionTimestamp" not in (await client.get(CONFIG_MAPS, KEY))["metadata"]:
        await asyncio.sleep(0.01)
    await client.patch(CONFIG_MAPS, KEY, {"metadata": {"finalizers": None}}, PatchKind.MERGE)


async def test_remove_returns_after_all_objects_are_deleted(served: Client) -> None:
    await served.create(CONFIG_MAPS, HELD, namespace="default")
    async with asyncio.TaskGroup() as group:
        group.create_task(_release(served))
        await remove(served, [HELD])
    with pytest.raises(NotFound):
        await served.get(CONFIG_MAPS, KEY)


async def test_remove_raises_naming_objects_not_deleted_in_time(served: Client) -> None:
    await served.create(CONFIG_MAPS, HELD, namespace="default")
    with pytest.raises(CommandError, match="deleted, but not gone after 0 s: configmaps/a; see"):
        await remove(served, [HELD], wait_seconds=0)


async def test_remove_ignores_objects_that_do_not_exist(served: Client) -> None:
    await remove(served, [HELD])
