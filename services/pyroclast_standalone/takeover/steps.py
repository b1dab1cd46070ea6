"""Stops an installed Volcano so that Pyroclast can replace it, and starts it again.

Each step can be repeated after an interruption and can be undone. The previous state is stored in the cluster, in an annotation
of each Deployment and in one ConfigMap.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable, Sequence
from typing import Any, Final

import orjson

from pyroclast.api.types import CONFIG_MAPS, MUTATING_WEBHOOKS, VALIDATING_WEBHOOKS, Key
from pyroclast.kube.basics.errors import AlreadyExists, NotFound
from pyroclast.kube.http.client import Client, Json, PatchKind
from pyroclast_standalone.errors import CommandError
from pyroclast_standalone.release import refuse_beside_ours, release_all
from pyroclast_standalone.takeover.inventory import DEPLOYMENTS, Inventory, Program, WebhookConfiguration, read

REPLICAS: Final = "pyroclast.dev/replicas-before-takeover"
"""Annotation of a Volcano Deployment that was scaled to 0, with its previous number of replicas."""
SAVED: Final = "pyroclast-takeover"
"""The ConfigMap with the deleted webhook configurations, in the namespace of Volcano's first Deployment."""

STOP_SECONDS: Final = 300.0
POLL_SECONDS: Final = 0.5
_KINDS: Final = {kind.kind: kind for kind in (MUTATING_WEBHOOKS, VALIDATING_WEBHOOKS)}
_SET_BY_SERVER: Final = frozenset({"uid", "resourceVersion", "generation", "creationTimestamp", "managedFields", "selfLink"})


async def stop_volcano(client: Client, found: Inventory, say: Callable[[str], None], *, seconds: float = STOP_SECONDS) -> None:
    """Save and delete Volcano's webhook configurations, then scale its Deployments to 0 and wait for their last pods.

    The webhooks are deleted first: without a running webhook manager, the API server would reject every Job. A second
    deletion follows at the end, because a webhook manager that started meanwhile has created the webhooks again.

    Raises:
        CommandError: a program still has pods after `seconds`.
    """
    await _remove_webhooks(client, found, found.webhooks, say)
    for program in found.programs:
        if program.replicas:
            annotations = {REPLICAS: str(program.replicas)}
            await _scale(client, program.key, 0, annotations)
            say(f"scaled from {program.replicas} to 0 replicas: Deployment {program.key}")
    await _wait_for_last_pods(client, found.programs, seconds)
    await _remove_webhooks(client, found, (await read(client)).webhooks, say)


async def _remove_webhooks(
    client: Client, found: Inventory, webhooks: Sequence[WebhookConfiguration], say: Callable[[str], None]
) -> None:
    for webhook in webhooks:
        await _save_and_delete(client, _saved_in(found), webhook)
        say(f"saved in ConfigMap {_saved_in(found)} and deleted: {webhook.kind} {webhook.name}")


async def start_volcano(client: Client, found: Inventory, say: Callable[[str], None]) -> None:
    """Scale Volcano's Deployments to their previous replicas, then create its webhook configurations again.

    Raises:
        CommandError: a program of Pyroclast still runs in the cluster.
    """
    await refuse_beside_ours(client)
    for kind, key in await release_all(client):  # no program would remove them later
        say(f"released: {kind.kind} {key}")
    for program in found.programs:
        annotations = (await client.get(DEPLOYMENTS, program.key))["metadata"].get("annotations") or {}
        if REPLICAS in annotations:
            await _scale(client, program.key, int(annotations[REPLICAS]), {REPLICAS: None})
            say(f"scaled to {annotations[REPLICAS]} replicas: Deployment {program.key}")
    try:
        saved = await client.get(CONFIG_MAPS, _saved_in(found))
    except NotFound:
        return
    for text in (saved.get("data") or {}).values():
        body = orjson.loads(text)
        with contextlib.suppress(AlreadyExists):  # Volcano's webhook manager creates some of them itself
            await client.create(_KINDS[body["kind"]], body)
            say(f"created: {body['kind']} {body['metadata']['name']}")
    with contextlib.suppress(NotFound):
        await client.delete(CONFIG_MAPS, _saved_in(found))


def _saved_in(found: Inventory) -> Key:
    return Key(found.programs[0].key.namespace, SAVED)


async def _save_and_delete(client: Client, saved: Key, webhook: WebhookConfiguration) -> None:
    kind, key = _KINDS[webhook.kind], Key("", webhook.name)
    try:
        body = await client.get(kind, key)
    except NotFound:
        return
    metadata = {name: value for name, value in body["metadata"].items() if name not in _SET_BY_SERVER}
    text = orjson.dumps({"apiVersion": kind.api_version, "kind": kind.kind, **body, "metadata": metadata}).decode()
    with contextlib.suppress(AlreadyExists):
        empty = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": saved.name}}
        await client.create(CONFIG_MAPS, empty, namespace=saved.namespace)
    await client.patch(CONFIG_MAPS, saved, {"data": {f"{kind.kind}.{webhook.name}": text}}, PatchKind.MERGE)
    with contextlib.suppress(NotFound):
        await client.delete(kind, key, uid=body["metadata"]["uid"])


async def _scale(client: Client, key: Key, replicas: int, annotations: dict[str, Any]) -> None:
    """Scale a Deployment in one write, so that it never has 0 replicas without the annotation of its previous number."""
    change = {"metadata": {"annotations": annotations}, "spec": {"replicas": replicas}}
    await client.patch(DEPLOYMENTS, key, change, PatchKind.MERGE)


async def _wait_for_last_pods(client: Client, programs: Sequence[Program], seconds: float) -> None:
    deadline = asyncio.get_running_loop().time() + seconds
    left = [program.key for program in programs]
    while left := [key for key in left if await _has_pods(client, key)]:
        if asyncio.get_running_loop().time() > deadline:
            names = ", ".join(map(str, left))
            raise CommandError(f"Deployment {names}: still has pods {seconds:.0f} s after it was scaled to 0; run this again")
        await asyncio.sleep(POLL_SECONDS)


async def _has_pods(client: Client, key: Key) -> bool:
    deployment: Json = await client.get(DEPLOYMENTS, key)
    return bool((deployment.get("status") or {}).get("replicas"))
