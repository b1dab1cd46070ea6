"""`pyroclast release`: what an uninstalled Pyroclast has left can be deleted, and so can its namespace."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from pyroclast.api.crds import custom_resource_definitions
from pyroclast.api.keys import FLOW_FINALIZER, HYPER_JOB_FINALIZER
from pyroclast.api.types import CRDS, HYPER_JOBS, JOB_FLOWS, NAMESPACES, Key, ResourceType
from pyroclast.kube.basics.errors import NotFound
from pyroclast.kube.credentials.config import load_config
from pyroclast.kube.http.client import Client
from pyroclast_standalone.apiserver.running import running_server
from pyroclast_standalone.directory import CommandError
from pyroclast_standalone.installation import release
from pyroclast_standalone.takeover.inventory import DEPLOYMENTS
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
