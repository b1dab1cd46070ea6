"""Cleans up, with a later submission, what nobody else removes.

That are the Secrets of clients that died before the Job existed or owned its Secret, and what deleted Jobs kept in a store.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import re
import shutil
from collections.abc import Iterable, Mapping
from hashlib import sha256
from pathlib import Path
from typing import Any, Final

from pyroclast.api.types import JOB_FLOWS, JOBS, SECRETS, Key
from pyroclast.kube.basics.errors import Conflict, Forbidden, NotFound
from pyroclast.kube.http.client import Client, PatchKind
from pyroclast.lifecycle.times import parse_time
from pyroclast_client.documents import PAYLOAD, SUBMISSION, job_of_secret
from pyroclast_client.runner import sealing
from pyroclast_client.submission import read_secret, remove_secret


class PendingSecrets:
    """The notes of this user about one cluster. Without a writable folder, there are no notes."""

    def __init__(self, server: str) -> None:
        home = os.environ.get("XDG_STATE_HOME") or Path.home() / ".local" / "state"
        self._folder = Path(home) / "pyroclast" / "submissions"
        self._cluster = sha256(server.encode()).hexdigest()[:16]

    def note(self, secret: Key) -> None:
        """Note that a Secret is about to be created."""
        with contextlib.suppress(OSError):  # as in a pod: whoever may list Secrets finds a remaining Secret by its label
            self._folder.mkdir(parents=True, exist_ok=True)
            self._file(secret).touch()

    def forget(self, secret: Key) -> None:
        """Remove the note on a Secret that has an owner or was deleted."""
        with contextlib.suppress(OSError):  # no note was written either
            self._file(secret).unlink(missing_ok=True)

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


_SUBMISSION: Final = re.compile(r"[0-9a-f]{16}")


def _owned_by(kube: Client, namespace: str) -> str:
    """Return the folder in which a store notes the submissions of one namespace of one cluster."""
    return f"owners/{sha256(f'{kube.config.server} {namespace}'.encode()).hexdigest()[:16]}"


def note_in_store(kube: Client, namespace: str, store: str, submission: str) -> None:
    """Note in a store that a Job or flow of this submission, which is about to be created, owns what it will keep there.

    Without a note, as in a folder that this account may not write, nothing is removed later.
    """
    with contextlib.suppress(sealing.NotMounted, OSError):
        if sealing.folder_of(store) is not None:
            sealing.put(store, f"{_owned_by(kube, namespace)}/{submission}", b"")


async def clean_store(kube: Client, namespace: str, store: str) -> int:
    """Remove the results of Jobs and flows that are gone for an hour from a store that this machine mounts. Return how many.

    Only submissions that are noted for this namespace of this cluster are touched, as others may use the store too.
    """
    try:
        folder = sealing.folder_of(store)
    except sealing.NotMounted:
        return 0
    notes = {} if folder is None else await asyncio.to_thread(_old_notes, folder / _owned_by(kube, namespace), kube.now())
    if folder is None or not notes:
        return 0
    try:
        items = [item for kind in (JOBS, JOB_FLOWS) for item in (await kube.list(kind, namespace))[0]]
    except Forbidden:
        return 0
    for item in items:
        notes.pop((item["metadata"].get("annotations") or {}).get(SUBMISSION, ""), None)
    for submission, note in notes.items():
        await asyncio.to_thread(shutil.rmtree, folder / submission, ignore_errors=True)
        note.unlink(missing_ok=True)
    return len(notes)


def _old_notes(folder: Path, now: float) -> dict[str, Path]:
    paths = folder.iterdir() if folder.is_dir() else ()
    return {path.name: path for path in paths if _SUBMISSION.fullmatch(path.name) and now - path.stat().st_mtime > OLD_SECONDS}
