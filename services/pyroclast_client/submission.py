"""Submits the Job of a function in three steps: create the Secret, create the Job, make the Job the owner of the Secret.

Each step can be repeated after a client died: a repeated submission finds the objects that it has already created.
"""

from __future__ import annotations

import base64
from typing import Any, Final

from pyroclast.api.types import JOBS, SECRETS, Key
from pyroclast.kube.basics.errors import AlreadyExists, Forbidden
from pyroclast.kube.http.client import Client, PatchKind
from pyroclast_client import errors
from pyroclast_client.creating import create
from pyroclast_client.documents import Document, label_of
from pyroclast_client.labels import PAYLOAD, SUBMISSION, job_of_secret
from pyroclast_client.translation import translating

NOBODY: Final = "00000000-0000-0000-0000-000000000000"
"""A UID that no object has."""


async def create_job(kube: Client, document: Document, *, dry_run: bool = False) -> Document:
    """Create a prepared Job, or return the one that this submission has already created.

    Raises:
        Rejected: the server rejects the Job, or another Job has its name.
    """
    what, metadata = label_of(document), document["metadata"]
    with translating(what):
        try:
            return await create(kube, JOBS, document, dry_run=dry_run)
        except AlreadyExists:
            there = await kube.get(JOBS, Key(metadata["namespace"], metadata["name"]))
    if _submission(there) == _submission(document):
        return there
    text = f"{what} is there already, and differs from this one; choose another name, or delete it"
    raise errors.Rejected(text, [errors.Cause("metadata.name", text)])


async def make_secret(kube: Client, document: Document) -> Document:
    """Create the Secret of a Job, or return the one that this submission has already created.

    Raises:
        Rejected: the server rejects the Secret, or another submission has a Secret of that name.
    """
    what, metadata = label_of(document), document["metadata"]
    with translating(what):
        try:
            return await kube.create(SECRETS, document, strict=True)
        except AlreadyExists:
            there = await read_secret(kube, Key(metadata["namespace"], metadata["name"]))
    if _submission(there) == _submission(document):
        return there
    text = f"{what} is there already, of another submission; choose another name for the Job, or delete the Secret"
    raise errors.Rejected(text, [errors.Cause("metadata.name", text)])


async def give_to(kube: Client, secret: Document, job: Document) -> None:
    """Make the Job the owner of the Secret, so that both are deleted together."""
    metadata = job["metadata"]
    owner = {"apiVersion": JOBS.api_version, "kind": JOBS.kind, "name": metadata["name"], "uid": metadata["uid"]}
    key = Key(metadata["namespace"], secret["metadata"]["name"])
    with translating(label_of(secret)):
        await kube.patch(SECRETS, key, {"metadata": {"ownerReferences": [owner]}}, PatchKind.MERGE)


async def remove_secret(kube: Client, secret: Key, *, uid: str = "") -> None:
    """Delete a Secret of this client.

    An account that may only patch its Secrets sets an owner that does not exist. The garbage collector then deletes the Secret.

    Raises:
        KubeError: the Secret was deleted, another Secret has its name, or this account may not even patch it.
    """
    try:
        await kube.delete(SECRETS, secret, uid=uid)
    except Forbidden:
        owner = {"apiVersion": JOBS.api_version, "kind": JOBS.kind, "name": job_of_secret(secret.name), "uid": NOBODY}
        metadata = {"ownerReferences": [owner], **({"uid": uid} if uid else {})}
        await kube.patch(SECRETS, secret, {"metadata": metadata}, PatchKind.MERGE)


async def key_of(kube: Client, name: Key) -> bytes:
    """Return the key with which the results of a Job are sealed, by the name of the Job's Secret."""
    with translating(f"Secret {name}"):
        return key_of_secret(await read_secret(kube, name))


def key_of_secret(secret: Document) -> bytes:
    """Return the key for seals that a Secret of a Job contains."""
    return base64.b64decode(secret["data"]["key"])


async def read_secret(kube: Client, name: Key) -> dict[str, Any]:
    """Return a Secret of this client. An account that may patch but not read Secrets sends a patch that changes nothing.

    Raises:
        KubeError: the Secret does not exist, or this account may not even patch it.
    """
    try:
        return await kube.get(SECRETS, name)
    except Forbidden:
        return await kube.patch(SECRETS, name, {"metadata": {"labels": {PAYLOAD: "true"}}}, PatchKind.MERGE)


def _submission(document: Document) -> str | None:
    found = (document["metadata"].get("annotations") or {}).get(SUBMISSION)
    return str(found) if found else None
