"""What a cluster needs before the services can work there: installed from the rendered chart, and taken away again.

The services themselves are not installed: they run as local processes, which the webhook configurations reach by URL.
"""

from __future__ import annotations

import asyncio
import copy
from collections.abc import Sequence
from importlib import resources
from typing import Any

import yaml

from pyroclast.api.types import CRDS, Key, ResourceType
from pyroclast.kube.client import Client, PatchKind
from pyroclast.kube.errors import NotFound

from .errors import CommandError
from .manifests import Catalogue, Manifest, key_of

__all__ = ["NAMESPACE", "RELEASE", "apply", "objects", "remove", "scheduler_configuration"]

RELEASE = "pyroclast"
NAMESPACE = "pyroclast-system"
FIELD_MANAGER = "pyroclast"

# In the order in which they are installed; what is not named here (Deployments, Services …) belongs to an installation by helm.
KINDS = (
    "Namespace",
    "CustomResourceDefinition",
    "ServiceAccount",
    "ClusterRole",
    "ClusterRoleBinding",
    "Role",
    "RoleBinding",
    "ConfigMap",
    "MutatingWebhookConfiguration",
    "ValidatingWebhookConfiguration",
)
ESTABLISHED_SECONDS = 30.0


def objects(webhook_url: str) -> list[Manifest]:
    """The manifests to install, in order; webhooks call `webhook_url` (scheme, host and port)."""
    found: list[Manifest] = []
    for file in ("manifests.yaml", "nodes.yaml"):
        text = resources.files(__package__).joinpath("data", file).read_text()
        found += [document for document in yaml.load_all(text, Loader=yaml.CSafeLoader) if document]
    chosen = [_reached_by_url(document, webhook_url) for document in found if document["kind"] in KINDS]
    return sorted(chosen, key=lambda document: KINDS.index(document["kind"]))


def scheduler_configuration() -> str:
    """The scheduler's configuration file, from the chart's ConfigMap."""
    for document in objects(""):
        if document["kind"] == "ConfigMap" and "volcano-scheduler.conf" in document.get("data", {}):
            return str(document["data"]["volcano-scheduler.conf"])
    raise CommandError("the package data holds no scheduler configuration: the installation is damaged, install pyroclast again")


async def apply(client: Client, manifests: Sequence[Manifest]) -> None:
    """Bring the objects to what `manifests` say, by server-side apply; CRDs are waited for until they are served."""
    catalogue = Catalogue(client)
    crds = [manifest for manifest in manifests if manifest["kind"] == "CustomResourceDefinition"]
    for manifest in manifests:
        kind = await catalogue.type_of(manifest)
        await client.patch(kind, key_of(manifest, kind), manifest, PatchKind.APPLY, field_manager=FIELD_MANAGER, force=True)
    async with asyncio.timeout(ESTABLISHED_SECONDS):
        for manifest in crds:
            while not _is_established(await client.get(CRDS, Key("", manifest["metadata"]["name"]))):
                await asyncio.sleep(0.1)


async def remove(client: Client, manifests: Sequence[Manifest]) -> None:
    """Delete the objects, in reverse order; finalizers of objects of our kinds are lifted, as nothing is left to honour them."""
    catalogue = Catalogue(client)
    for manifest in reversed(manifests):
        if manifest["kind"] == "CustomResourceDefinition":
            await _lift_finalizers(client, _served_type(manifest))
        kind = await catalogue.type_of(manifest)
        try:
            await client.delete(kind, key_of(manifest, kind))
        except NotFound:
            continue


async def _lift_finalizers(client: Client, kind: ResourceType) -> None:
    try:
        items, _ = await client.list(kind)
    except NotFound:
        return
    for item in items:
        metadata = item["metadata"]
        if metadata.get("finalizers"):
            key = Key(metadata.get("namespace", ""), metadata["name"])
            try:
                await client.patch(kind, key, {"metadata": {"finalizers": None}}, PatchKind.MERGE)
            except NotFound:
                continue


def _served_type(crd: Manifest) -> ResourceType:
    spec = crd["spec"]
    names = spec["names"]
    version = next(version["name"] for version in spec["versions"] if version["served"])
    return ResourceType(spec["group"], version, names["plural"], names["kind"], spec["scope"] == "Namespaced")


def _is_established(crd: dict[str, Any]) -> bool:
    conditions = crd.get("status", {}).get("conditions", [])
    return any(condition["type"] == "Established" and condition["status"] == "True" for condition in conditions)


def _reached_by_url(manifest: Manifest, webhook_url: str) -> Manifest:
    if not manifest["kind"].endswith("WebhookConfiguration"):
        return manifest
    changed = copy.deepcopy(manifest)
    for webhook in changed["webhooks"]:
        service = webhook["clientConfig"].pop("service", None)
        if service is not None:
            webhook["clientConfig"]["url"] = webhook_url + service["path"]
    return changed
