"""What a user takes away from a cluster is gone when the command says so; what does not go is named."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from pyroclast.api.crds import custom_resource_definitions
from pyroclast.api.keys import FLOW_FINALIZER, HYPER_JOB_FINALIZER
from pyroclast.api.types import CONFIG_MAPS, CRDS, HYPER_JOBS, JOB_FLOWS, NAMESPACES, Key, ResourceType
from pyroclast.kube.basics.errors import NotFound
from pyroclast.kube.credentials.config import load_config
from pyroclast.kube.http.client import Client, PatchKind
from pyroclast_standalone.directory import CommandError
from pyroclast_standalone.installation import release, remove
from pyroclast_standalone.takeover.inventory import DEPLOYMENTS
from tests.unit.running import running_server
from tests.unit.standalone.takeover.test_takeover_command import deployment


async def held(client: Client, kind: ResourceType, name: str, *finalizers: str) -> None:
    body = {"apiVersion": kind.api_version, "kind": kind.kind, "spec": {}}
    await client.create(kind, {**body, "metadata": {"name": name, "namespace": "n", "finalizers": list(finalizers)}})


async def there(client: Client, kind: ResourceType, key: Key) -> dict[str, Any] | None:
    try:
        return await client.get(kind, key)
    except NotFound:
        return None


async def test_release_removes_pyroclast_finalizers_and_keeps_other_finalizers() -> None:
    async with running_server() as server, Client(load_config(str(server.kubeconfig))) as client:
        for crd in custom_resource_definitions():
            if crd["spec"]["names"]["kind"] in ("JobFlow", "HyperJob"):
                await client.create(CRDS, crd)
        await server.settle()
        await client.create(NAMESPACES, {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "n"}})
        await held(client, JOB_FLOWS, "going", FLOW_FINALIZER)
        await held(client, JOB_FLOWS, "shared", FLOW_FINALIZER, "somebody.example/else")
        await held(client, HYPER_JOBS, "h", HYPER_JOB_FINALIZER)
        await client.delete(JOB_FLOWS, Key("n", "going"))
        assert await there(client, JOB_FLOWS, Key("n", "going")) is not None

        said: list[str] = []
        assert await release(Path(server.kubeconfig), said.append) == 0
        assert said[-1] == "3 objects can be deleted now."
        assert await there(client, JOB_FLOWS, Key("n", "going")) is None
        shared = await client.get(JOB_FLOWS, Key("n", "shared"))
        assert shared["metadata"]["finalizers"] == ["somebody.example/else"]
        assert "finalizers" not in (await client.get(HYPER_JOBS, Key("n", "h")))["metadata"]

        assert await release(Path(server.kubeconfig), said.append) == 0
        assert said[-1] == "No object has a finalizer of Pyroclast."


async def test_release_is_refused_while_pyroclast_runs() -> None:
    async with running_server() as server, Client(load_config(str(server.kubeconfig))) as client:
        ours = deployment("pyroclast-jobflow")
        ours["metadata"]["labels"] = {"app.kubernetes.io/name": "pyroclast"}
        await client.create(DEPLOYMENTS, ours, namespace="default")
        with pytest.raises(CommandError, match="pyroclast-jobflow"):
            await release(Path(server.kubeconfig), print)


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
