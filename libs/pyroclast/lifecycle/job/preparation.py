"""Preparation of a Job: the claims, plugin objects and PodGroup that must exist before its pods are created."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import dataclass
from typing import Any, Final

import msgspec

from pyroclast.api import keys
from pyroclast.api.enums import PodPhase
from pyroclast.api.records import Job, JobVolume, Pod
from pyroclast.api.types import JOBS
from pyroclast.lifecycle import effects
from pyroclast.lifecycle.gang import podgroups, pods
from pyroclast.lifecycle.job.facts import JobFacts
from pyroclast.lifecycle.merging import controller_reference
from pyroclast.lifecycle.times import parse_time

STUCK_SECONDS: Final = 30.0
"""Longer than the creation of a container takes, if its image is on the node."""


def preparations(facts: JobFacts) -> Iterator[effects.Effect]:
    """Yield the effects that create or update the prepared objects, in order; nothing when all objects are up to date."""
    if forwards(facts) and facts.job.metadata.annotations.get(keys.JOB_FORWARDING) != "true":
        yield effects.AnnotateJob({keys.JOB_FORWARDING: "true"})
    due = examined_at(facts)
    if not is_prepared(facts) or (due is not None and facts.now >= due):
        yield effects.PreparePlugins()
    claims = examine(facts.job, facts.claims)
    if claims.unnamed:
        yield effects.NameClaims(
            claims.unnamed
        )  # the names are stored before the claims are created, so that no claim is created twice
    if claims.uncreated:
        yield effects.CreateClaims(claims.uncreated)
    yield from _group(facts)


def is_prepared(facts: JobFacts) -> bool:
    """Whether the plugin objects exist for the present generation of the Job."""
    if not facts.marks or facts.memory.prepared == facts.job.metadata.generation:
        return True
    status = facts.job.status
    marked = all(key in status.controlled_resources for key in facts.marks) and not facts.memory.removed
    return marked and status.observed_generation == facts.job.metadata.generation


def examined_at(facts: JobFacts) -> float | None:
    """Return when to look for plugin objects that somebody has deleted; None while no pod waits on its node for them.

    A pod without its Secret or ConfigMap stays Pending on its node. So the controller looks when a pod has been there for
    `STUCK_SECONDS`, and then after pauses that double, because a pod may wait for something else, such as its image.
    """
    waiting = [_bound_at(pod) for pod in facts.pods.by_name.values() if _waits_on_its_node(pod)] if facts.marks else []
    if not waiting:
        return None
    since, looked = min(waiting), facts.memory.prepared_at
    return max(since, looked + max(0.0, looked - since)) + STUCK_SECONDS


def _waits_on_its_node(pod: Pod) -> bool:
    return bool(pod.spec.node_name) and pod.status.phase is PodPhase.PENDING and not pod.metadata.is_terminating


def _bound_at(pod: Pod) -> float:
    bound = (each.last_transition_time for each in pod.status.conditions if each.type == "PodScheduled" and each.status == "True")
    text = next(bound, None) or pod.metadata.creation_timestamp
    return parse_time(text) if text else 0.0


def obstacle(facts: JobFacts) -> str:
    """Return why nothing can be prepared; empty when preparation is possible."""
    return "" if facts.queue else f'queue "{facts.job.spec.queue}" not found'


def forwards(facts: JobFacts) -> bool:
    """Whether the queue of the Job forwards its Jobs to other clusters."""
    return facts.queue is not None and bool(facts.queue.spec.extend_clusters)


def _group(facts: JobFacts) -> Iterator[effects.Effect]:
    job, group = podgroups.remaining(facts.job, facts.pods), facts.group
    if group is not None and group.metadata.is_terminating:
        return  # the name becomes free after the deletion, which the watch reports
    if group is not None and podgroups.is_stale(job, group, facts.pods):
        if not facts.has_no_group:
            yield effects.DeleteGroup(group.metadata.name, group.metadata.uid)
        group = None
    if group is None and facts.has_no_group:
        return  # it comes with the pod
    if group is None:
        yield effects.CreateGroup(podgroups.manifest(job, facts.priorities, facts.additions))
        return
    changed = job.status.observed_generation != job.metadata.generation
    patch = podgroups.patch(
        job,
        group,
        facts.priorities,
        facts.additions,
        spec_changed=changed,
        additions_changed=facts.additions != facts.memory.additions,
        carried=facts.memory.carried,
    )
    if patch:
        yield effects.PatchGroup(group.metadata.name, patch)


@dataclass(frozen=True, slots=True)
class Claims:
    """The missing claims of a Job.

    `unnamed`: generated names by position in `spec.volumes`. `uncreated`: positions of claims to create. `awaited`: names of
    missing claims that others have to create.
    """

    unnamed: dict[int, str]
    uncreated: tuple[int, ...]
    awaited: tuple[str, ...]


def examine(job: Job, existing: Collection[str]) -> Claims:
    """Return the volume claims of the Job that do not exist. `existing`: the names of the claims in the Job's namespace."""
    volumes = list(enumerate(job.spec.volumes))
    absent = [(i, volume) for i, volume in volumes if volume.volume_claim_name and volume.volume_claim_name not in existing]
    return Claims(
        unnamed={i: pods.claim_name(job, i) for i, volume in volumes if _is_generated(volume) and not volume.volume_claim_name},
        uncreated=tuple(i for i, volume in absent if _is_generated(volume)),
        awaited=tuple(volume.volume_claim_name for _, volume in absent if not _is_generated(volume)),
    )


def claim_manifest(job: Job, position: int) -> dict[str, Any]:
    """Return the claim of `spec.volumes[position]`, owned by the Job."""
    volume = job.spec.volumes[position]
    return {
        "apiVersion": "v1",
        "kind": "PersistentVolumeClaim",
        "metadata": {
            "name": volume.volume_claim_name,
            "namespace": job.metadata.namespace,
            "ownerReferences": [controller_reference(JOBS, job.metadata)],
        },
        "spec": msgspec.json.decode(bytes(volume.volume_claim)),
    }


def resources_of(job: Job) -> dict[str, str]:
    """Return the entries of `status.controlledResources` for the claims that the Job uses."""
    return {f"volume-pvc-{name}": name for name in (volume.volume_claim_name for volume in job.spec.volumes) if name}


def _is_generated(volume: JobVolume) -> bool:
    return bytes(volume.volume_claim) not in (b"", b"null")
