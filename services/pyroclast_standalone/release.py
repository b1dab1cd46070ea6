"""The command `pyroclast release`: removes Pyroclast's finalizers after an uninstall, so that the objects can be deleted."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Final

from pyroclast.api.keys import FLOW_FINALIZER, HYPER_JOB_FINALIZER
from pyroclast.api.types import HYPER_JOBS, JOB_FLOWS, Key, ResourceType
from pyroclast.kube.basics.errors import Conflict, NotFound
from pyroclast.kube.credentials.config import load_config
from pyroclast.kube.http.client import Client, Json, PatchKind
from pyroclast_standalone.errors import CommandError
from pyroclast_standalone.takeover.inventory import DEPLOYMENTS

_HELD: Final = ((JOB_FLOWS, FLOW_FINALIZER), (HYPER_JOBS, HYPER_JOB_FINALIZER))
"""The kinds whose deletion waits for their Jobs, and the finalizer of each."""

_TRIES: Final = 5


async def release(kubeconfig: Path, say: Callable[[str], None]) -> int:
    """Remove Pyroclast's finalizers from all objects of the cluster. Nothing is deleted.

    Returns:
        0.

    Raises:
        CommandError: Pyroclast still runs in the cluster, or another client writes an object all the time.
        KubeError: the API server does not answer.
    """
    async with Client(load_config(str(kubeconfig))) as client:
        await refuse_beside_ours(client)
        released = await release_all(client)
    for kind, key in released:
        say(f"released: {kind.kind} {key}")
    say(f"{len(released)} objects can be deleted now." if released else "No object has a finalizer of Pyroclast.")
    return 0


async def refuse_beside_ours(client: Client) -> None:
    """Check that no program of Pyroclast runs.

    Raises:
        CommandError: a program runs.
    """
    ours = (await client.list(DEPLOYMENTS, label_selector="app.kubernetes.io/name=pyroclast"))[0]
    running = sorted(each["metadata"]["name"] for each in ours if each["spec"].get("replicas", 1))
    if running:
        raise CommandError(f"Pyroclast still runs here ({', '.join(running)}): `helm uninstall` it first, then run this again")


async def release_all(client: Client) -> list[tuple[ResourceType, Key]]:
    """Remove Pyroclast's finalizers from all objects. Return the objects that had one. Other finalizers stay.

    Raises:
        CommandError: another client writes an object so often that no removal succeeds.
    """
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
