"""Removes what `installation` created in a cluster: the objects, all objects of Pyroclast's kinds, and the simulated nodes."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Sequence

from pyroclast.api.types import NODES, PODS, Key, ResourceType
from pyroclast.kube.basics.errors import NotFound
from pyroclast.kube.http.client import Client, PatchKind
from pyroclast_standalone.errors import CommandError
from pyroclast_standalone.manifests import Catalogue, Manifest, key_of
from pyroclast_standalone.nodes.injections import SIMULATED

WAIT_SECONDS = 60.0
POLL_SECONDS = 0.2


async def remove(client: Client, manifests: Sequence[Manifest], *, wait_seconds: float = WAIT_SECONDS) -> None:
    """Delete the objects in reverse order, and the simulated nodes with their pods. Return when all are gone.

    An object that does not exist is skipped. Finalizers of objects of Pyroclast's kinds are removed, because no controller is
    left to handle them.

    Raises:
        CommandError: some objects still exist after `wait_seconds`. The message names them.
    """
    catalogue = Catalogue(client)
    deleted: list[tuple[ResourceType, Key]] = []
    for manifest in reversed(manifests):
        if manifest["kind"] == "CustomResourceDefinition":
            await _lift_finalizers(client, _served_type(manifest))
        kind = await catalogue.type_of(manifest)
        with contextlib.suppress(NotFound):
            await client.delete(kind, key_of(manifest, kind))
            deleted.append((kind, key_of(manifest, kind)))
    await _remove_nodes(client)
    await _wait_until_gone(client, deleted, wait_seconds)


async def _wait_until_gone(client: Client, deleted: Sequence[tuple[ResourceType, Key]], wait_seconds: float) -> None:
    """Wait until the objects are gone. A definition and a namespace are removed only after their content."""
    deadline = asyncio.get_running_loop().time() + wait_seconds
    left = list(deleted)
    while left := [each for each in left if await _is_there(client, *each)]:
        if asyncio.get_running_loop().time() > deadline:
            names = ", ".join(f"{kind.plural}/{key.name}" for kind, key in left)
            raise CommandError(f"deleted, but not gone after {wait_seconds:.0f} s: {names}; see the conditions in their status")
        await asyncio.sleep(POLL_SECONDS)


async def _is_there(client: Client, kind: ResourceType, key: Key) -> bool:
    try:
        await client.get(kind, key)
    except NotFound:
        return False
    return True


async def _lift_finalizers(client: Client, kind: ResourceType) -> None:
    with contextlib.suppress(NotFound):  # the CRD is gone
        for item in (await client.list(kind))[0]:
            metadata = item["metadata"]
            if metadata.get("finalizers"):
                key = Key(metadata.get("namespace", ""), metadata["name"])
                with contextlib.suppress(NotFound):
                    await client.patch(kind, key, {"metadata": {"finalizers": None}}, PatchKind.MERGE)


async def _remove_nodes(client: Client) -> None:
    """Delete the simulated nodes and their pods. A pod without its node would never be removed."""
    nodes, _ = await client.list(NODES)
    for node in nodes:
        if SIMULATED not in node["metadata"].get("annotations", {}):
            continue
        name = node["metadata"]["name"]
        pods, _ = await client.list(PODS, field_selector=f"spec.nodeName={name}")
        for pod in pods:
            with contextlib.suppress(NotFound):
                await client.delete(PODS, Key(pod["metadata"]["namespace"], pod["metadata"]["name"]), grace_seconds=0)
        with contextlib.suppress(NotFound):
            await client.delete(NODES, Key("", name))


def _served_type(crd: Manifest) -> ResourceType:
    spec = crd["spec"]
    names = spec["names"]
    version = next(version["name"] for version in spec["versions"] if version["served"])
    return ResourceType(spec["group"], version, names["plural"], names["kind"], spec["scope"] == "Namespaced")
