"""What must stand before the pods of a Job may come: claims, the objects of its plugins, and its PodGroup."""

from __future__ import annotations

from collections.abc import Iterator

from pyroclast.api import keys
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
from pyroclast.lifecycle.gang import podgroups, volumes
from pyroclast.lifecycle.job.facts import JobFacts

__all__ = ["forwards", "is_prepared", "obstacle", "preparations"]


def preparations(facts: JobFacts) -> Iterator[Effect]:
    """What is still to be made or brought up to date, in order; nothing when all stands."""
    if forwards(facts) and facts.job.metadata.annotations.get(keys.JOB_FORWARDING) != "true":
        yield AnnotateJob({keys.JOB_FORWARDING: "true"})
    if not is_prepared(facts):
        yield PreparePlugins()
    claims = volumes.examine(facts.job, facts.claims)
    if claims.unnamed:
        yield NameClaims(claims.unnamed)  # the names are kept before the claims are made, so that none is made twice
    if claims.uncreated:
        yield CreateClaims(claims.uncreated)
    yield from _group(facts)


def is_prepared(facts: JobFacts) -> bool:
    """Whether the plugin objects are those of the Job's present generation."""
    if not facts.marks or facts.memory.prepared == facts.job.metadata.generation:
        return True
    status = facts.job.status
    marked = all(key in status.controlled_resources for key in facts.marks) and not facts.memory.removed
    return marked and status.observed_generation == facts.job.metadata.generation


def obstacle(facts: JobFacts) -> str:
    """Why nothing can be prepared at all; empty when it can."""
    return "" if facts.queue else f'queue "{facts.job.spec.queue}" not found'


def forwards(facts: JobFacts) -> bool:
    """Whether the queue sends its Jobs to other clusters."""
    return facts.queue is not None and bool(facts.queue.spec.extend_clusters)


def _group(facts: JobFacts) -> Iterator[Effect]:
    job, group = facts.job, facts.group
    if group is not None and group.metadata.is_terminating:
        return  # its name is free when it has gone; the watch will tell
    if group is not None and podgroups.is_stale(job, group, facts.pods):
        yield DeleteGroup(group.metadata.name, group.metadata.uid)
        group = None
    if group is None:
        yield CreateGroup(podgroups.manifest(job, facts.priorities))
        return
    changed = job.status.observed_generation != job.metadata.generation
    patch = podgroups.patch(job, group, facts.priorities, spec_changed=changed, carried=facts.memory.carried)
    if patch:
        yield PatchGroup(group.metadata.name, patch)
