"""Secrets of clients that died between a Secret and its Job, or before the Job owned it: a later submission sees to them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final

from pyroclast.api.types import JOBS, SECRETS, Key
from pyroclast.kube.basics.errors import Conflict, Forbidden, NotFound
from pyroclast.kube.http.client import Client, PatchKind
from pyroclast.lifecycle.times import parse_time
from pyroclast_client.labels import PAYLOAD, SUBMISSION, job_of_secret
from pyroclast_client.pending import PendingSecrets
from pyroclast_client.submission import read_secret, remove_secret

__all__ = ["orphans", "remove_orphans"]

OLD_SECONDS: Final = 3600.0
"""A Secret gets its owner within seconds of its making."""


def orphans(secrets: Iterable[Mapping[str, Any]], now: float) -> list[Mapping[str, Any]]:
    """The Secrets that nothing owns an hour after they were made. `now`: seconds since the epoch."""
    return [
        each["metadata"]
        for each in secrets
        if not each["metadata"].get("ownerReferences") and now - parse_time(each["metadata"]["creationTimestamp"]) > OLD_SECONDS
    ]


async def remove_orphans(kube: Client, namespace: str, pending: PendingSecrets) -> int:
    """Delete those that have no Job, and give the others to theirs; how many were deleted.

    An account that may list Secrets sees to all that have the label, others to those that this user has noted here.
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
            pass  # another client was faster, or it is another Secret by now
        except Forbidden:
            continue
        pending.forget(secret)
    return removed


async def _noted(kube: Client, namespace: str, pending: PendingSecrets) -> list[dict[str, Any]]:
    """The Secrets of the notes; a note on one that is gone, or has its owner, is thrown away."""
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
    """Whether the Secret has a Job, whose client died before it made that the owner: then it is made so."""
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
