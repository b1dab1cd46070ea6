"""Who owns what a Job's controller makes."""

from __future__ import annotations

from typing import Any

from pyroclast.api.records import Job, Meta
from pyroclast.api.types import JOBS

__all__ = ["is_ours", "owner_reference"]


def owner_reference(job: Job) -> dict[str, Any]:
    """The one owner reference that everything made for `job` carries."""
    return {
        "apiVersion": JOBS.api_version,
        "kind": JOBS.kind,
        "name": job.metadata.name,
        "uid": job.metadata.uid,
        "controller": True,
        "blockOwnerDeletion": True,
    }


def is_ours(job: Job, meta: Meta) -> bool:
    """Whether the object with `meta` belongs to `job`, that very one, and not to a namesake or a stranger."""
    return any(owner.uid == job.metadata.uid for owner in meta.owner_references)
