"""Takes away from a cluster what `installation` brought there: our objects, all objects of our kinds, and the simulated nodes."""

from __future__ import annotations

import contextlib
from collections.abc import Sequence

from pyroclast.api.types import NODES, PODS, Key, ResourceType
from pyroclast.kube.client import Client, PatchKind
from pyroclast.kube.errors import NotFound

from .manifests import Catalogue, Manifest, key_of
from .nodes.injections import SIMULATED

__all__ = ["remove"]


async def remove(client: Client, manifests: Sequence[Manifest]) -> None:
    """Delete the objects in reverse order, and the simulated nodes with the pods on them. What is gone already is passed over.

    Finalizers of objects of our kinds are lifted, as nothing is left to honour them.
    """
    catalogue = Catalogue(client)
    for manifest in reversed(manifests):
        if manifest["kind"] == "CustomResourceDefinition":
            await _lift_finalizers(client, _served_type(manifest))
        kind = await catalogue.type_of(manifest)
        with contextlib.suppress(NotFound):
            await client.delete(kind, key_of(manifest, kind))
    await _remove_nodes(client)


async def _lift_finalizers(client: Client, kind: ResourceType) -> None:
    with contextlib.suppress(NotFound):  # the CRD is gone
        for item in (await client.list(kind))[0]:
            metadata = item["metadata"]
            if metadata.get("finalizers"):
                key = Key(metadata.get("namespace", ""), metadata["name"])
                with contextlib.suppress(NotFound):
                    await client.patch(kind, key, {"metadata": {"finalizers": None}}, PatchKind.MERGE)


async def _remove_nodes(client: Client) -> None:
    """A pod of a node that is no more would wait for ever for somebody to stop it."""
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
