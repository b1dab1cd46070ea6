"""What goes when the standalone cluster is removed, tokens of its services, and how it reads manifests."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from pyroclast.api.crds import custom_resource_definitions
from pyroclast.api.keys import FLOW_FINALIZER, HYPER_JOB_FINALIZER
from pyroclast.api.types import CONFIG_MAPS, CRDS, DEPLOYMENTS, HYPER_JOBS, JOB_FLOWS, NAMESPACES, Key, ResourceType
from pyroclast.kube.basics.errors import NotFound
from pyroclast.kube.credentials.config import load_config
from pyroclast.kube.http.client import Client, PatchKind
from pyroclast_standalone import accounts
from pyroclast_standalone.accounts import Accounts
from pyroclast_standalone.directory import CommandError
from pyroclast_standalone.installation import release, remove
from pyroclast_standalone.manifests import has_all, read
from tests.unit.kube.fault_server import FaultServer, Step, answer, status
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


TOKEN = "POST /api/v1/namespaces/pyroclast-system/serviceaccounts/a/token"


def token(text: str) -> Step:
    ends = (datetime.now(UTC) + timedelta(milliseconds=1)).isoformat()
    return answer(201, {"status": {"token": text, "expirationTimestamp": ends}})


async def test_token_renewal_is_logged_and_retried_after_an_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(accounts, "LEAST_SECONDS", 0.001)
    async with FaultServer() as server, server.client() as client:
        server.on(TOKEN, token("first"), token("for our servers"), status(403, "Forbidden"), token("second"))
        lines: list[str] = []
        kept = Accounts(client, client.config, tmp_path, lines.append)
        await kept.issue("a")
        keeping = asyncio.create_task(kept.keep_fresh())
        async with asyncio.timeout(60):
            while (tmp_path / "a.token").read_text() != "second":
                assert not keeping.done()
                await asyncio.sleep(0.005)
        keeping.cancel()
        assert len(lines) == 1
        assert lines[0].startswith("the token of a was not renewed: ")


GOOD = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}\n"
LIST = "apiVersion: v1\nkind: List\nitems:\n- {apiVersion: v1, kind: ConfigMap, metadata: {name: b}}\n"


def test_manifests_are_read_from_documents_lists_and_folders(tmp_path: Path) -> None:
    (tmp_path / "1.yaml").write_text(GOOD + "---\n" + LIST + "---\n")
    (tmp_path / "2.json").write_text('{"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"generateName": "c-"}}')
    (tmp_path / "notes.txt").write_text("no manifest")
    names = [manifest["metadata"].get("name") for manifest in read([tmp_path])]
    assert names == ["a", "b", None]


@pytest.mark.parametrize(
    ("text", "want"),
    [
        pytest.param("a: [", "not YAML: while parsing", id="syntax"),
        pytest.param(
            "- 1\n", "document 1: a manifest is a mapping with apiVersion, kind and metadata, this is a list", id="list"
        ),
        pytest.param("kind: Job\nmetadata: {name: a}\n", "document 1: apiVersion is missing", id="no-api-version"),
        pytest.param(GOOD + "---\napiVersion: v1\nmetadata: {name: a}\n", "document 2: kind is missing", id="no-kind"),
        pytest.param("apiVersion: v1\nkind: Job\n", "document 1: metadata.name is missing", id="no-name"),
        pytest.param(LIST.replace("name: b", "x: b"), "items[0]: metadata.name is missing", id="in-a-list"),
        pytest.param("---\n", "no objects in there", id="empty"),
    ],
)
def test_invalid_manifest_is_refused_naming_file_and_field(tmp_path: Path, text: str, want: str) -> None:
    file = tmp_path / "m.yaml"
    file.write_text(text)
    with pytest.raises(CommandError) as caught:
        read([file])
    assert str(file) in str(caught.value)
    assert want in str(caught.value)
    assert "\n" not in str(caught.value)


def test_missing_manifest_file_is_refused(tmp_path: Path) -> None:
    with pytest.raises(CommandError, match="No such file or directory; give the path of a manifest"):
        read([tmp_path / "none.yaml"])


def test_has_all_returns_whether_the_object_contains_the_expected_fields() -> None:
    found = {"metadata": {"name": "a", "uid": "1"}, "spec": {"tasks": [{"name": "t", "replicas": 1}]}}
    assert has_all(found, {"metadata": {"name": "a"}, "spec": {"tasks": [{"name": "t"}]}})
    assert not has_all(found, {"spec": {"tasks": [{"name": "t"}, {"name": "u"}]}})
    assert not has_all(found, {"spec": {"tasks": {"name": "t"}}})
    assert not has_all(found, {"data": {}})
