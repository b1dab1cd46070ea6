"""Preparation of a Job: the claims, plugin objects and PodGroup that must exist before its pods are created."""

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


def preparations(facts: JobFacts) -> Iterator[Effect]:
    """Yield the effects that create or update the prepared objects, in order; nothing when all objects are up to date."""
    if forwards(facts) and facts.job.metadata.annotations.get(keys.JOB_FORWARDING) != "true":
        yield AnnotateJob({keys.JOB_FORWARDING: "true"})
    if not is_prepared(facts):
        yield PreparePlugins()
    claims = volumes.examine(facts.job, facts.claims)
    if claims.unnamed:
        yield NameClaims(claims.unnamed)  # the names are stored before the claims are created, so that no claim is created twice
    if claims.uncreated:
        yield CreateClaims(claims.uncreated)
    yield from _group(facts)


def is_prepared(facts: JobFacts) -> bool:
    """Whether the plugin objects exist for the present generation of the Job."""
    if not facts.marks or facts.memory.prepared == facts.job.metadata.generation:
        return True
    status = facts.job.status
    marked = all(key in status.controlled_resources for key in facts.marks) and not facts.memory.removed
    return marked and status.observed_generation == facts.job.metadata.generation


def obstacle(facts: JobFacts) -> str:
    """Return why nothing can be prepared; empty when preparation is possible."""
    return "" if facts.queue else f'queue "{facts.job.spec.queue}" not found'


def forwards(facts: JobFacts) -> bool:
    """Whether the queue of the Job forwards its Jobs to other clusters."""
    return facts.queue is not None and bool(facts.queue.spec.extend_clusters)


def _group(facts: JobFacts) -> Iterator[Effect]:
    job, group = facts.job, facts.group
    if group is not None and group.metadata.is_terminating:
        return  # the name becomes free after the deletion, which the watch reports
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
