"""Who owns what a Job's controller makes."""

from __future__ import annotations

from pyroclast.api.records import Job, Meta

__all__ = ["is_ours"]


def is_ours(job: Job, meta: Meta) -> bool:
    """Whether the object with `meta` belongs to `job`, that very one, and not to a namesake or a stranger."""
    return any(owner.uid == job.metadata.uid for owner in meta.owner_references)
