"""The claims of a Job's volumes: which claims need a name, which are to be created, and which the Job waits for."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from typing import Any

import msgspec

from pyroclast.api.records import Job, JobVolume
from pyroclast.api.types import JOBS
from pyroclast.lifecycle.gang import names
from pyroclast.lifecycle.ownership import controller_reference


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
        unnamed={i: names.claim_name(job, i) for i, volume in volumes if _is_generated(volume) and not volume.volume_claim_name},
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
