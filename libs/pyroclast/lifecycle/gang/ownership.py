"""Ownership of the objects that the controller creates for a Job."""

from __future__ import annotations

from pyroclast.api.records import Job, Meta


def is_ours(job: Job, meta: Meta) -> bool:
    """Whether the object with `meta` belongs to `job`, compared by UID, and not to another Job of the same name or to another
    owner.
    """
    return any(owner.uid == job.metadata.uid for owner in meta.owner_references)
