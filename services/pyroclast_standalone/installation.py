"""Installs the objects that the services need in a cluster, from the rendered chart.

The services themselves run as local processes, which the webhook configurations reach by URL.
"""

from __future__ import annotations

import asyncio
import copy
import itertools
from collections.abc import Sequence
from functools import cache
from importlib import resources
from typing import Any

import yaml

from pyroclast.api.types import CRDS, NATIVE_POD_GROUPS, Key
from pyroclast.kube.http.client import Client, PatchKind
from pyroclast.rules.policies.seats import seats_manifests
from pyroclast_standalone.errors import CommandError
from pyroclast_standalone.manifests import Catalogue, Manifest, key_of

RELEASE = "pyroclast"
NAMESPACE = "pyroclast-system"
FIELD_MANAGER = "pyroclast"

# The kinds in the order of installation. Other kinds (Deployments, Services …) belong to an installation by helm.
KINDS = (
    "Namespace",
    "CustomResourceDefinition",
    "ServiceAccount",
    "ClusterRole",
    "ClusterRoleBinding",
    "Role",
    "RoleBinding",
    "ConfigMap",
    "StorageClass",
    "MutatingWebhookConfiguration",
    "ValidatingWebhookConfiguration",
    "ValidatingAdmissionPolicy",
    "ValidatingAdmissionPolicyBinding",
)
ESTABLISHED_SECONDS = 30.0


def objects(
    webhook_url: str, *, is_embedded: bool = False, place_before_pods: bool = False, publish_native_groups: bool = False
) -> list[Manifest]:
    """Return the manifests to install, in order. The webhooks call `webhook_url` (scheme, host and port).

    With `place_before_pods`, gangs are placed before their pods exist, and no other client may set placements. With
    `publish_native_groups`, gangs of Jobs are also shown as native PodGroups.

    The embedded control plane also gets a storage class, which a real cluster has already. Admission policies are left out, as
    the embedded API server does not evaluate them.
    """
    found: list[Manifest] = []
    for file in ("manifests.yaml", "nodes.yaml", *(("storage.yaml",) if is_embedded else ())):
        found += _documents(file)
    if place_before_pods:
        found += seats_manifests(namespace=NAMESPACE, release=RELEASE)
    if publish_native_groups:
        found += _publishing()
    kinds = [kind for kind in KINDS if not (is_embedded and kind.startswith("ValidatingAdmissionPolicy"))]
    chosen = [_reached_by_url(document, webhook_url) for document in found if document["kind"] in kinds]
    return sorted(chosen, key=lambda document: KINDS.index(document["kind"]))


def _publishing() -> list[Manifest]:
    """Return the RBAC rules for creating native PodGroups, which the chart has only if the controllers need them."""
    name, group = f"{RELEASE}-native-groups", "rbac.authorization.k8s.io"
    rule = {"apiGroups": [NATIVE_POD_GROUPS.group], "resources": [NATIVE_POD_GROUPS.plural], "verbs": ["create", "get", "patch"]}
    account = {"kind": "ServiceAccount", "name": f"{RELEASE}-controllers", "namespace": NAMESPACE}
    common = {"apiVersion": f"{group}/v1", "metadata": {"name": name}}
    return [
        {**common, "kind": "ClusterRole", "rules": [rule]},
        {
            **common,
            "kind": "ClusterRoleBinding",
            "roleRef": {"apiGroup": group, "kind": "ClusterRole", "name": name},
            "subjects": [account],
        },
    ]


def scheduler_configuration() -> str:
    """Return the scheduler's configuration file from the chart's ConfigMap."""
    for document in objects(""):
        if document["kind"] == "ConfigMap" and "volcano-scheduler.conf" in document.get("data", {}):
            return str(document["data"]["volcano-scheduler.conf"])
    raise CommandError("the package data holds no scheduler configuration: the installation is damaged, install pyroclast again")


def in_process_webhooks(module: str) -> tuple[str, ...]:
    """Return the flag of `module` that names the webhooks which skip its objects, as in the chart."""
    return tuple(word for word in arguments(module) if word.startswith("--in-process-webhooks="))


def arguments(module: str) -> list[str]:
    """Return the arguments of the program `module` in the chart with its default values."""
    for document in _documents("manifests.yaml"):
        if document["kind"] in ("Deployment", "StatefulSet"):
            (container,) = document["spec"]["template"]["spec"]["containers"]
            if container["command"][-1] == module:
                return [str(word) for word in container["args"]]
    raise CommandError(f"the package data holds no program {module}: the installation is damaged, install pyroclast again")


async def apply(client: Client, manifests: Sequence[Manifest]) -> None:
    """Apply `manifests` by server-side apply. Wait until the CRDs are served."""
    catalogue = Catalogue(client)
    crds = [manifest for manifest in manifests if manifest["kind"] == "CustomResourceDefinition"]

    async def apply_one(manifest: Manifest) -> None:
        kind = await catalogue.type_of(manifest)
        await client.patch(kind, key_of(manifest, kind), manifest, PatchKind.APPLY, field_manager=FIELD_MANAGER, force=True)

    for _, alike in itertools.groupby(manifests, lambda manifest: manifest["kind"]):
        async with asyncio.TaskGroup() as group:
            for manifest in alike:
                group.create_task(apply_one(manifest))
    async with asyncio.timeout(ESTABLISHED_SECONDS):
        for manifest in crds:
            while not _is_established(await client.get(CRDS, Key("", manifest["metadata"]["name"]))):
                await asyncio.sleep(0.1)


def _is_established(crd: dict[str, Any]) -> bool:
    conditions = (crd.get("status") or {}).get("conditions") or []  # null on a server that has just created it
    return any(condition["type"] == "Established" and condition["status"] == "True" for condition in conditions)


@cache
def _documents(file: str) -> list[Manifest]:
    """Return the objects in a file of the package data, which must not be modified."""
    text = resources.files(__package__).joinpath("data", file).read_text()
    return [document for document in yaml.load_all(text, Loader=yaml.CSafeLoader) if document]


def _reached_by_url(manifest: Manifest, webhook_url: str) -> Manifest:
    if not manifest["kind"].endswith("WebhookConfiguration"):
        return manifest
    changed = copy.deepcopy(manifest)
    for webhook in changed["webhooks"]:
        service = webhook["clientConfig"].pop("service", None)
        if service is not None:
            webhook["clientConfig"]["url"] = webhook_url + service["path"]
    return changed
