"""Cleans up, with a later submission, the Secrets of clients that died before the Job existed or owned its Secret."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from hashlib import sha256
from pathlib import Path
from typing import Any, Final

from pyroclast.api.types import JOBS, SECRETS, Key
from pyroclast.kube.basics.errors import Conflict, Forbidden, NotFound
from pyroclast.kube.http.client import Client, PatchKind
from pyroclast.lifecycle.times import parse_time
from pyroclast_client.documents import PAYLOAD, SUBMISSION, job_of_secret
from pyroclast_client.submission import read_secret, remove_secret


class PendingSecrets:
    """The notes of this user about one cluster. Without a writable folder, there are no notes."""

    def __init__(self, server: str) -> None:
        home = os.environ.get("XDG_STATE_HOME") or Path.home() / ".local" / "state"
        self._folder = Path(home) / "pyroclast" / "submissions"
        self._cluster = sha256(server.encode()).hexdigest()[:16]

    def note(self, secret: Key) -> None:
        """Note that a Secret is about to be created."""
        try:
            self._folder.mkdir(parents=True, exist_ok=True)
            self._file(secret).touch()
        except OSError:  # as in a pod: whoever may list Secrets finds a remaining Secret by its label
            return

    def forget(self, secret: Key) -> None:
        """Remove the note on a Secret that has an owner or was deleted."""
        try:
            self._file(secret).unlink(missing_ok=True)
        except OSError:  # no note was written either
            return

    def of(self, namespace: str) -> list[Key]:
        """Return the keys of the Secrets in one namespace about which notes exist."""
        noted = self._folder.glob(f"{self._cluster}_{namespace}_*") if self._folder.is_dir() else ()
        return sorted(Key(namespace, path.name.rpartition("_")[2]) for path in noted)

    def _file(self, secret: Key) -> Path:
        return self._folder / f"{self._cluster}_{secret.namespace}_{secret.name}"  # Kubernetes names have no underscore


OLD_SECONDS: Final = 3600.0
"""Seconds after which a Secret without an owner is an orphan. A Secret normally gets its owner within seconds."""


def orphans(secrets: Iterable[Mapping[str, Any]], now: float) -> list[Mapping[str, Any]]:
    """Return the Secrets that have no owner an hour after their creation. `now` is in seconds since the epoch."""
    return [
        each["metadata"]
        for each in secrets
        if not each["metadata"].get("ownerReferences") and now - parse_time(each["metadata"]["creationTimestamp"]) > OLD_SECONDS
    ]


async def remove_orphans(kube: Client, namespace: str, pending: PendingSecrets) -> int:
    """Delete the orphaned Secrets without a Job, and make the Job the owner of the other Secrets. Return how many were deleted.

    An account that may list Secrets cleans up all Secrets with the label. Other accounts clean up those noted on this machine.
    """
    try:
        found, _ = await kube.list(SECRETS, namespace, label_selector=f"{PAYLOAD}=true")
    except Forbidden:
        found = await _noted(kube, namespace, pending)
    removed = 0
    for metadata in orphans(found, kube.now()):
        secret = Key(namespace, metadata["name"])
        try:
            if not await _is_adopted(kube, namespace, metadata):
                await remove_secret(kube, secret, uid=metadata["uid"])
                removed += 1
        except (NotFound, Conflict):
            pass  # another client was faster, or another Secret has the name now
        except Forbidden:
            continue
        pending.forget(secret)
    return removed


async def _noted(kube: Client, namespace: str, pending: PendingSecrets) -> list[dict[str, Any]]:
    """Return the noted Secrets. The note on a Secret that was deleted or has its owner is removed."""
    found = []
    for secret in pending.of(namespace):
        try:
            there = await read_secret(kube, secret)
        except NotFound:
            pending.forget(secret)
            continue
        if there["metadata"].get("ownerReferences"):
            pending.forget(secret)
        found.append(there)
    return found


async def _is_adopted(kube: Client, namespace: str, metadata: Mapping[str, Any]) -> bool:
    """Make the Job the owner of a Secret whose client died before that step. Return False when the Secret has no Job."""
    try:
        job = (await kube.get(JOBS, Key(namespace, job_of_secret(metadata["name"]))))["metadata"]
    except NotFound:
        return False
    if (job.get("annotations") or {}).get(SUBMISSION) != (metadata.get("annotations") or {}).get(SUBMISSION):
        return False
    owner = {"apiVersion": JOBS.api_version, "kind": JOBS.kind, "name": job["name"], "uid": job["uid"]}
    body = {"metadata": {"uid": metadata["uid"], "ownerReferences": [owner]}}
    await kube.patch(SECRETS, Key(namespace, metadata["name"]), body, PatchKind.MERGE)
    return True
