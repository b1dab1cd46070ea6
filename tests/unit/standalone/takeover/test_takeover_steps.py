"""`pyroclast takeover` and `pyroclast takeover --back` against a served API server."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from pyroclast.api.crds import custom_resource_definitions
from pyroclast.api.types import CONFIG_MAPS, CRDS, DEPLOYMENTS, JOBS, VALIDATING_WEBHOOKS, Key, ResourceType
from pyroclast.kube.basics.errors import NotFound
from pyroclast.kube.credentials.config import load_config
from pyroclast.kube.http.client import Client, PatchKind
from pyroclast_standalone.directory import CommandError
from pyroclast_standalone.takeover import command, inventory
from pyroclast_standalone.takeover.command import back, take_over
from tests.unit.running import running_server
from tests.unit.standalone.takeover.test_takeover_command import CONFIGURATION, deployment, install

SCHEDULER = Key("default", "vc-scheduler")
WEBHOOK = Key("", "volcano-admission-service-jobs-validate")
SAVED = Key("default", command.SAVED)
MANY = 1000
"""More writes than any step makes."""


@pytest.fixture
async def volcano() -> AsyncIterator[tuple[Client, Path]]:
    """An API server in which Volcano is installed."""
    async with running_server() as server, Client(load_config(str(server.kubeconfig))) as client:
        await install(client, CONFIGURATION)
        yield client, Path(server.kubeconfig)


async def exists(client: Client, kind: Any, key: Key) -> bool:
    try:
        await client.get(kind, key)
    except NotFound:
        return False
    return True


async def versions(client: Client) -> list[str]:
    """The resourceVersions of everything that a takeover writes."""
    written = [await client.get(*each) for each in ((DEPLOYMENTS, SCHEDULER), (CONFIG_MAPS, SAVED))]
    return [each["metadata"]["resourceVersion"] for each in written]


async def test_takeover_stops_volcano_and_takeover_back_restores_it(volcano: tuple[Client, Path]) -> None:
    client, kubeconfig = volcano
    before = await client.get(VALIDATING_WEBHOOKS, WEBHOOK)
    assert await take_over(kubeconfig, print) == 0
    stopped = await client.get(DEPLOYMENTS, SCHEDULER)
    assert stopped["spec"]["replicas"] == 0
    assert stopped["metadata"]["annotations"][command.REPLICAS] == "1"
    assert not await exists(client, VALIDATING_WEBHOOKS, WEBHOOK)

    assert await back(kubeconfig, print) == 0
    started = await client.get(DEPLOYMENTS, SCHEDULER)
    assert started["spec"]["replicas"] == 1
    assert command.REPLICAS not in (started["metadata"].get("annotations") or {})
    after = await client.get(VALIDATING_WEBHOOKS, WEBHOOK)
    assert after["webhooks"] == before["webhooks"]
    assert not await exists(client, CONFIG_MAPS, SAVED)


@pytest.mark.parametrize(
    ("spec", "fields"),
    [
        ({"tasks": [{"name": "a", "replicas": 1}], "queue": "q", "suspend": False}, []),
        ({"suspend": True, "after": [{"job": "a"}], "plugins": {"slurm": [], "env": []}}, ["suspend", "after", "plugins.slurm"]),
        ({"maxRunTime": "1h", "tasks": [{"array": {"indexes": "0-9"}}, {"independentPods": True}]},
         ["maxRunTime", "tasks[].array", "tasks[].independentPods"]),
    ],
)  # fmt: skip
def test_fields_that_volcano_does_not_know_are_told_by_their_paths(spec: dict[str, Any], fields: list[str]) -> None:
    assert inventory.fields_beyond_volcano(spec) == fields


async def test_takeover_back_names_the_jobs_whose_fields_volcano_does_not_know(volcano: tuple[Client, Path]) -> None:
    client, kubeconfig = volcano
    assert await take_over(kubeconfig, [].append) == 0
    await client.create(CRDS, next(each for each in custom_resource_definitions() if each["metadata"]["name"] == JOBS.qualified))
    job = {"apiVersion": JOBS.api_version, "kind": JOBS.kind, "metadata": {"name": "held", "namespace": "default"}}
    await client.create(JOBS, {**job, "spec": {"suspend": True, "deadline": "2h", "tasks": [{"name": "a", "replicas": 1}]}})
    said: list[str] = []
    assert await back(kubeconfig, said.append) == 0
    assert "  Job default/held: suspend, deadline" in said


async def test_a_repeated_takeover_changes_nothing(volcano: tuple[Client, Path]) -> None:
    client, kubeconfig = volcano
    await take_over(kubeconfig, print)
    written = await versions(client)
    assert await take_over(kubeconfig, print) == 0
    assert await versions(client) == written


class Breaking(Client):
    """A client whose process is killed before its write number `writes`, counted from 0."""

    def __init__(self, kubeconfig: Path, writes: int) -> None:
        super().__init__(load_config(str(kubeconfig)))
        self._left = writes

    async def create(self, *arguments: Any, **options: Any) -> Any:
        self._count()
        return await super().create(*arguments, **options)

    async def patch(self, *arguments: Any, **options: Any) -> Any:
        self._count()
        return await super().patch(*arguments, **options)

    async def delete(self, *arguments: Any, **options: Any) -> Any:
        self._count()
        return await super().delete(*arguments, **options)

    def _count(self) -> None:
        if self._left == 0:
            raise InterruptedError
        self._left -= 1


Step = Callable[[Client, inventory.Inventory, Callable[[str], None]], Awaitable[None]]


async def is_finished(kubeconfig: Path, step: Step, writes: int) -> bool:
    """Whether `step` gets to its end with so many writes; it is killed before the next."""
    async with Breaking(kubeconfig, writes) as client:
        try:
            await step(client, await inventory.read(client), print)
        except InterruptedError:
            return False
    return True


async def state(client: Client) -> dict[str, Any]:
    """What a takeover changes."""
    programs = {each["metadata"]["name"]: each for each in (await client.list(DEPLOYMENTS, "default"))[0]}
    return {
        "replicas": {name: each["spec"]["replicas"] for name, each in programs.items()},
        "annotations": [each["metadata"].get("annotations") or {} for each in programs.values()],
        "webhooks": [each["webhooks"] for each in (await client.list(VALIDATING_WEBHOOKS))[0]],
        "saved": await exists(client, CONFIG_MAPS, SAVED),
    }


async def test_takeover_killed_after_any_write_can_be_finished_or_undone(volcano: tuple[Client, Path]) -> None:
    """It is then finished by the next one, or undone by the way back; and that can be killed after each write too."""
    client, kubeconfig = volcano
    before = await state(client)
    stopped: dict[str, Any] = {}
    writes = 0
    while not await is_finished(kubeconfig, command.stop_volcano, writes):
        assert await is_finished(kubeconfig, command.start_volcano, MANY)
        assert await state(client) == before, f"undone after {writes} writes"
        await is_finished(kubeconfig, command.stop_volcano, writes)
        assert await is_finished(kubeconfig, command.stop_volcano, MANY)
        stopped = await state(client)
        assert (set(stopped["replicas"].values()), stopped["webhooks"]) == ({0}, []), f"finished after {writes} writes"
        assert await is_finished(kubeconfig, command.start_volcano, MANY)
        writes += 1
    assert writes == 5, "one to delete a webhook configuration, two to save it, and one for each Deployment"
    assert await state(client) == stopped

    writes = 0
    while not await is_finished(kubeconfig, command.start_volcano, writes):
        assert await is_finished(kubeconfig, command.start_volcano, MANY)
        assert await state(client) == before, f"finished after {writes} writes"
        assert await is_finished(kubeconfig, command.stop_volcano, MANY)
        writes += 1
    assert writes == 4, "one for each Deployment, one to create a webhook configuration, and one to delete what was saved"
    assert await state(client) == before


async def test_webhook_configuration_recreated_during_the_takeover_is_deleted_and_saved(volcano: tuple[Client, Path]) -> None:
    """Nobody would answer them."""
    client, kubeconfig = volcano
    webhook = await client.get(VALIDATING_WEBHOOKS, WEBHOOK)

    class Registering(Client):
        async def patch(self, kind: ResourceType, *arguments: Any, **options: Any) -> Any:
            if kind == DEPLOYMENTS and arguments[0] == SCHEDULER:
                metadata = {"name": WEBHOOK.name}
                await super().create(VALIDATING_WEBHOOKS, {**webhook, "metadata": metadata})
            return await super().patch(kind, *arguments, **options)

    async with Registering(load_config(str(kubeconfig))) as other:
        await command.stop_volcano(other, await inventory.read(other), print)
    assert not await exists(client, VALIDATING_WEBHOOKS, WEBHOOK)
    await back(kubeconfig, print)
    assert (await client.get(VALIDATING_WEBHOOKS, WEBHOOK))["webhooks"] == webhook["webhooks"]


async def test_takeover_changes_nothing_when_a_program_would_be_lost(volcano: tuple[Client, Path]) -> None:
    client, kubeconfig = volcano
    await client.create(DEPLOYMENTS, deployment("vc-agent-scheduler"), namespace="default")
    assert await take_over(kubeconfig, print) == 1
    assert (await client.get(DEPLOYMENTS, SCHEDULER))["spec"]["replicas"] == 1
    assert await exists(client, VALIDATING_WEBHOOKS, WEBHOOK)


async def test_takeover_back_is_refused_while_pyroclast_is_installed(volcano: tuple[Client, Path]) -> None:
    client, kubeconfig = volcano
    await take_over(kubeconfig, print)
    ours = deployment("pyroclast-scheduler")
    ours["metadata"]["labels"] = {"app.kubernetes.io/name": "pyroclast"}
    await client.create(DEPLOYMENTS, ours, namespace="default")
    with pytest.raises(CommandError, match="Pyroclast still runs here \\(pyroclast-scheduler\\)"):
        await back(kubeconfig, print)
    await client.delete(DEPLOYMENTS, Key("default", "pyroclast-scheduler"))
    assert await back(kubeconfig, print) == 0


async def test_takeover_raises_naming_a_deployment_whose_pods_remain(volcano: tuple[Client, Path]) -> None:
    client, _ = volcano
    await client.patch(DEPLOYMENTS, SCHEDULER, {"status": {"replicas": 1}}, PatchKind.MERGE, subresource="status")
    with pytest.raises(CommandError, match="Deployment default/vc-scheduler: still has pods"):
        await command.stop_volcano(client, await inventory.read(client), print, seconds=0)
