"""Installs the objects that the services need in a cluster, from the rendered chart, and takes them away again.

The services themselves run as local processes, which the webhook configurations reach by URL. `pyroclast release` removes the
finalizers that an uninstalled Pyroclast left, so that its objects can be deleted.
"""

from __future__ import annotations

import asyncio
import contextlib
import copy
import itertools
from collections.abc import Callable, Sequence
from functools import cache
from importlib import resources
from pathlib import Path
from typing import Any, Final

import yaml

from pyroclast.api.keys import FLOW_FINALIZER, HYPER_JOB_FINALIZER
from pyroclast.api.types import CRDS, DEPLOYMENTS, HYPER_JOBS, JOB_FLOWS, NATIVE_POD_GROUPS, NODES, PODS, Key, ResourceType
from pyroclast.kube.basics.errors import Conflict, NotFound
from pyroclast.kube.credentials.config import load_config
from pyroclast.kube.http.client import Client, Json, PatchKind
from pyroclast.rules.policies.switched import seats_manifests
from pyroclast_standalone.directory import CommandError
from pyroclast_standalone.manifests import Catalogue, Manifest, key_of
from pyroclast_standalone.nodes.injections import MACHINE, SIMULATED

_HELD: Final = ((JOB_FLOWS, FLOW_FINALIZER), (HYPER_JOBS, HYPER_JOB_FINALIZER))
"""The kinds whose deletion waits for their Jobs, and the finalizer of each."""

_TRIES: Final = 5


async def release(kubeconfig: Path, say: Callable[[str], None]) -> int:
    """Remove Pyroclast's finalizers from all objects of the cluster. Nothing is deleted. Return the exit status 0.

    Raises KubeError: the API server does not answer.
    """
    async with Client(load_config(str(kubeconfig))) as client:
        await refuse_beside_ours(client)
        released = await release_all(client)
    for kind, key in released:
        say(f"released: {kind.kind} {key}")
    say(f"{len(released)} objects can be deleted now." if released else "No object has a finalizer of Pyroclast.")
    return 0


async def refuse_beside_ours(client: Client) -> None:
    """Check that no program of Pyroclast runs."""
    ours = (await client.list(DEPLOYMENTS, label_selector="app.kubernetes.io/name=pyroclast"))[0]
    running = sorted(each["metadata"]["name"] for each in ours if each["spec"].get("replicas", 1))
    if running:
        raise CommandError(f"Pyroclast still runs here ({', '.join(running)}): `helm uninstall` it first, then run this again")


async def release_all(client: Client) -> list[tuple[ResourceType, Key]]:
    """Remove Pyroclast's finalizers from all objects. Return the objects that had one. Other finalizers stay."""
    released = []
    for kind, finalizer in _HELD:
        try:
            items = (await client.list(kind))[0]
        except NotFound:  # the kind is not installed
            continue
        for item in items:
            key = Key(item["metadata"]["namespace"], item["metadata"]["name"])
            if await _release(client, kind, key, item, finalizer):
                released.append((kind, key))
    return released


async def _release(client: Client, kind: ResourceType, key: Key, item: Json, finalizer: str) -> bool:
    for _ in range(_TRIES):
        meta = item["metadata"]
        left = [each for each in meta.get("finalizers") or () if each != finalizer]
        if left == (meta.get("finalizers") or []):
            return False
        patch = {"metadata": {"uid": meta["uid"], "resourceVersion": meta["resourceVersion"], "finalizers": left}}
        try:
            await client.patch(kind, key, patch, PatchKind.MERGE)
        except NotFound:
            return False
        except Conflict:
            try:
                item = await client.get(kind, key)
            except NotFound:
                return False
        else:
            return True
    raise CommandError(f"{kind.kind} {key}: somebody else writes to it all the time; run this again")


WAIT_SECONDS = 60.0
POLL_SECONDS = 0.2


async def remove(client: Client, manifests: Sequence[Manifest], *, wait_seconds: float = WAIT_SECONDS) -> None:
    """Delete the objects in reverse order, and the simulated nodes with their pods. Return when all are gone.

    An object that does not exist is skipped. Finalizers of objects of Pyroclast's kinds are removed, because no controller is
    left to handle them.
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


async def remove_other_nodes(client: Client, machine: str) -> None:
    """Remove the nodes of an earlier start that nobody runs any more: all but that of this machine, or only that one.

    `machine`: the name of the node that is this machine. Empty if the nodes are others. Nodes that a user made stay.
    """
    await _remove_nodes(
        client, lambda name, mark: mark != "true" and ((mark, name) != (MACHINE, machine) if machine else mark == MACHINE)
    )


async def _remove_nodes(client: Client, is_removed: Callable[[str, str], bool] = lambda _name, _mark: True) -> None:
    """Delete the nodes that run here and their pods. A pod without its node would never be removed."""
    nodes, _ = await client.list(NODES)
    for node in nodes:
        name, mark = node["metadata"]["name"], (node["metadata"].get("annotations") or {}).get(SIMULATED)
        if mark is None or not is_removed(name, mark):
            continue
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
    rule = {"apiGroups": [NATIVE_POD_GROUPS.group], "resources": [NATIVE_POD_GROUPS.plural], "verbs": ["create", "get", "patch"]}
    account = {"kind": "ServiceAccount", "name": f"{RELEASE}-controllers", "namespace": NAMESPACE}
    return bound_role("Cluster", f"{RELEASE}-native-groups", "", [account], [rule])


def bound_role(
    scope: str, name: str, namespace: str, subjects: list[dict[str, str]], rules: list[dict[str, list[str]]]
) -> list[Manifest]:
    """Return a role and its binding to `subjects`. `scope`: `Cluster`, or empty for a role in `namespace`."""
    metadata: dict[str, Any] = {"name": name, **({"namespace": namespace} if namespace else {})}
    group, kind = "rbac.authorization.k8s.io", f"{scope}Role"
    common, reference = {"apiVersion": f"{group}/v1", "metadata": metadata}, {"apiGroup": group, "kind": kind, "name": name}
    return [
        {**common, "kind": kind, "rules": rules},
        {**common, "kind": f"{kind}Binding", "roleRef": reference, "subjects": subjects},
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
