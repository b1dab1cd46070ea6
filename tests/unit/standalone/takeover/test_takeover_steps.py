"""`pyroclast takeover` and `pyroclast takeover --back` against a served API server."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import pytest

from pyroclast.api.types import CONFIG_MAPS, VALIDATING_WEBHOOKS, Key
from pyroclast.kube.basics.errors import NotFound
from pyroclast.kube.credentials.config import load_config
from pyroclast.kube.http.client import Client, PatchKind
from pyroclast_standalone.apiserver.running import running_server
from pyroclast_standalone.errors import CommandError
from pyroclast_standalone.takeover import inventory, steps
from pyroclast_standalone.takeover.command import back, take_over
from pyroclast_standalone.takeover.inventory import DEPLOYMENTS
from tests.unit.standalone.takeover.test_takeover_command import CONFIGURATION, deployment, install

SCHEDULER = Key("default", "vc-scheduler")
WEBHOOK = Key("", "volcano-admission-service-jobs-validate")
SAVED = Key("default", steps.SAVED)


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


async def test_a_takeover_stops_volcano_and_the_way_back_restores_it(volcano: tuple[Client, Path]) -> None:
    client, kubeconfig = volcano
    before = await client.get(VALIDATING_WEBHOOKS, WEBHOOK)
    assert await take_over(kubeconfig, print) == 0
    stopped = await client.get(DEPLOYMENTS, SCHEDULER)
    assert stopped["spec"]["replicas"] == 0
    assert stopped["metadata"]["annotations"][steps.REPLICAS] == "1"
    assert not await exists(client, VALIDATING_WEBHOOKS, WEBHOOK)

    assert await back(kubeconfig, print) == 0
    started = await client.get(DEPLOYMENTS, SCHEDULER)
    assert started["spec"]["replicas"] == 1
    assert steps.REPLICAS not in (started["metadata"].get("annotations") or {})
    after = await client.get(VALIDATING_WEBHOOKS, WEBHOOK)
    assert after["webhooks"] == before["webhooks"]
    assert not await exists(client, CONFIG_MAPS, SAVED)


async def test_a_repeated_takeover_changes_nothing(volcano: tuple[Client, Path]) -> None:
    client, kubeconfig = volcano
    await take_over(kubeconfig, print)
    written = await versions(client)
    assert await take_over(kubeconfig, print) == 0
    assert await versions(client) == written


@pytest.mark.parametrize("step", range(1, 3))
async def test_an_interrupted_takeover_is_finished_by_the_next(step: int, volcano: tuple[Client, Path]) -> None:
    """The first try ends right after `step` of its two steps was said."""
    client, kubeconfig = volcano
    with pytest.raises(InterruptedError):
        async with Client(load_config(str(kubeconfig))) as first:
            await steps.stop_volcano(first, await inventory.read(first), _interrupt_after(step))
    await take_over(kubeconfig, print)
    assert (await client.get(DEPLOYMENTS, SCHEDULER))["spec"]["replicas"] == 0
    await back(kubeconfig, print)
    assert (await client.get(DEPLOYMENTS, SCHEDULER))["spec"]["replicas"] == 1
    assert await exists(client, VALIDATING_WEBHOOKS, WEBHOOK)


def _interrupt_after(step: int) -> Callable[[str], None]:
    said: list[str] = []

    def say(line: str) -> None:
        said.append(line)
        if len(said) == step:
            raise InterruptedError

    return say


async def test_nothing_is_changed_where_something_would_be_lost(volcano: tuple[Client, Path]) -> None:
    client, kubeconfig = volcano
    await client.create(DEPLOYMENTS, deployment("vc-agent-scheduler"), namespace="default")
    assert await take_over(kubeconfig, print) == 1
    assert (await client.get(DEPLOYMENTS, SCHEDULER))["spec"]["replicas"] == 1
    assert await exists(client, VALIDATING_WEBHOOKS, WEBHOOK)


async def test_the_way_back_waits_for_pyroclast_to_be_uninstalled(volcano: tuple[Client, Path]) -> None:
    client, kubeconfig = volcano
    await take_over(kubeconfig, print)
    ours = deployment("pyroclast-scheduler")
    ours["metadata"]["labels"] = {"app.kubernetes.io/name": "pyroclast"}
    await client.create(DEPLOYMENTS, ours, namespace="default")
    with pytest.raises(CommandError, match="Pyroclast still runs here \\(pyroclast-scheduler\\)"):
        await back(kubeconfig, print)
    await client.delete(DEPLOYMENTS, Key("default", "pyroclast-scheduler"))
    assert await back(kubeconfig, print) == 0


async def test_a_program_that_does_not_stop_is_named(volcano: tuple[Client, Path]) -> None:
    client, _ = volcano
    await client.patch(DEPLOYMENTS, SCHEDULER, {"status": {"replicas": 1}}, PatchKind.MERGE, subresource="status")
    with pytest.raises(CommandError, match="default/vc-scheduler: still has pods"):
        await steps.stop_volcano(client, await inventory.read(client), print, seconds=0)
