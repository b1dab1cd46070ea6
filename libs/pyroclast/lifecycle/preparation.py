"""What must stand before the pods of a Job may come: claims, the objects of its plugins, and its PodGroup."""

from __future__ import annotations

from collections.abc import Iterator

from pyroclast.api import keys
from pyroclast.lifecycle import podgroups, volumes
from pyroclast.lifecycle.effects import (
    AnnotateJob,
    CreateClaims,
    CreateGroup,
    DeleteGroup,
    Effect,
    NameClaims,
    PatchGroup,
    PreparePlugins,
)
from pyroclast.lifecycle.views import JobView

__all__ = ["forwards", "is_prepared", "obstacle", "preparations"]


def preparations(view: JobView) -> Iterator[Effect]:
    """What is still to be made or brought up to date, in order; nothing when all stands."""
    if forwards(view) and view.job.metadata.annotations.get(keys.JOB_FORWARDING) != "true":
        yield AnnotateJob({keys.JOB_FORWARDING: "true"})
    if not is_prepared(view):
        yield PreparePlugins()
    claims = volumes.examine(view.job, view.claims)
    if claims.unnamed:
        yield NameClaims(claims.unnamed)  # the names are kept before the claims are made, so that none is made twice
    if claims.uncreated:
        yield CreateClaims(claims.uncreated)
    yield from _group(view)


def is_prepared(view: JobView) -> bool:
    """Whether the plugin objects are those of the Job's present generation."""
    if not view.marks or view.memory.prepared == view.job.metadata.generation:
        return True
    status = view.job.status
    marked = all(key in status.controlled_resources for key in view.marks) and not view.memory.removed
    return marked and status.observed_generation == view.job.metadata.generation


def obstacle(view: JobView) -> str:
    """Why nothing can be prepared at all; empty when it can."""
    return "" if view.queue else f'queue "{view.job.spec.queue}" not found'


def forwards(view: JobView) -> bool:
    """Whether the queue sends its Jobs to other clusters."""
    return view.queue is not None and bool(view.queue.spec.extend_clusters)


def _group(view: JobView) -> Iterator[Effect]:
    job, group = view.job, view.group
    if group is not None and group.metadata.is_terminating:
        return  # its name is free when it has gone; the watch will tell
    if group is not None and podgroups.is_stale(job, group, view.pods):
        yield DeleteGroup(group.metadata.name, group.metadata.uid)
        group = None
    if group is None:
        yield CreateGroup(podgroups.manifest(job, view.priorities))
        return
    changed = job.status.observed_generation != job.metadata.generation
    patch = podgroups.patch(job, group, view.priorities, spec_changed=changed)
    if patch:
        yield PatchGroup(group.metadata.name, patch)
