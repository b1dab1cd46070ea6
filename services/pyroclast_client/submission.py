"""Submits the Job of a function in three steps: create the Secret, create the Job, make the Job the owner of the Secret.

Each step can be repeated after a client died: a repeated submission finds the objects that it has already created.
"""

from __future__ import annotations

import base64
import copy
import re
import warnings
from collections.abc import Iterable
from typing import Any, Final, NamedTuple

from pyroclast.api.types import JOBS, SECRETS, Key, ResourceType
from pyroclast.kube.basics.errors import AlreadyExists, ApiError, Forbidden
from pyroclast.kube.http.client import Client, PatchKind
from pyroclast_client import errors
from pyroclast_client.documents import PAYLOAD, SUBMISSION, Document, job_of_secret, label_of
from pyroclast_client.errors import PyroclastWarning
from pyroclast_client.translation import translating

BAD_REQUEST: Final = 400

_UNKNOWN: Final = re.compile(r'unknown field "([^"]+)"')
_STEP: Final = re.compile(r"([^.\[\]]+)|\[(\d+)\]")


async def create(kube: Client, kind: ResourceType, document: Document, *, dry_run: bool = False) -> Document:
    """Create an object that our schema has accepted. A field that the server does not know is therefore newer than the server.

    Raises:
        KubeError: the server rejects the object or does not answer.
    """
    try:
        return await kube.create(kind, document, dry_run=dry_run, strict=True)
    except ApiError as error:
        unknown = unknown_fields(error.message) if error.status == BAD_REQUEST else []
        if not unknown:
            raise
    fields = ", ".join(unknown)
    text = f"{label_of(document)}: this server does not know {fields}, which is left out; upgrade Pyroclast there to have it"
    warnings.warn(text, PyroclastWarning, stacklevel=2)
    return await kube.create(kind, without(document, unknown), dry_run=dry_run, strict=True)


def unknown_fields(message: str) -> list[str]:
    """Return the paths of the unknown fields in an error message of the server."""
    return list(dict.fromkeys(_UNKNOWN.findall(message)))


def without(document: Document, paths: Iterable[str]) -> Document:
    """Return a copy of the object without the fields at these paths, such as `spec.tasks[0].retry`."""
    kept = copy.deepcopy(document)
    for path in paths:
        steps: list[Any] = [name or int(number) for name, number in _STEP.findall(path)]
        holder: Any = kept
        for step in steps[:-1]:
            holder = holder[step]
        holder.pop(steps[-1], None)
    return kept


NOBODY: Final = "00000000-0000-0000-0000-000000000000"
"""A UID that no object has."""


async def create_job(kube: Client, document: Document, *, dry_run: bool = False) -> Document:
    """Create a prepared Job, or return the one that this submission has already created."""
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


class MadeSecret(NamedTuple):
    """The Secret of a Job, and whether this call created it; only then may it delete the Secret, by its UID."""

    document: Document
    is_new: bool


async def make_secret(kube: Client, document: Document) -> MadeSecret:
    """Create the Secret of a Job, or return the one that this submission has already created."""
    what, metadata = label_of(document), document["metadata"]
    with translating(what):
        try:
            return MadeSecret(await kube.create(SECRETS, document, strict=True), is_new=True)
        except AlreadyExists:
            there = await read_secret(kube, Key(metadata["namespace"], metadata["name"]))
    if _submission(there) == _submission(document):
        return MadeSecret(there, is_new=False)
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
    mark = (document["metadata"].get("annotations") or {}).get(SUBMISSION)
    return str(mark) if mark else None
