"""The Jobs that were made from a JobTemplate: the names of them in the status of each JobTemplate."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final

from pyroclast.api import keys
from pyroclast.api.records import Job, JobTemplate
from pyroclast.api.types import JOB_TEMPLATES, JOBS, Key
from pyroclast.kube.basics.errors import Conflict, NotFound
from pyroclast.kube.http.client import PatchKind
from pyroclast.kube.workqueue.sharded_queue import ShardedQueue
from pyroclast.lifecycle.flow.jobs import template_of
from pyroclast.runtime.reconciler import Pace
from pyroclast_jobflow_controller.caches import TEMPLATE, Shared

MOST_NAMES: Final = 5000
"""The most Jobs that the status of a template names, the latest ones. Templates are used for years, and the size of an object is
limited.
"""

_OF_FLOWS: Final = (keys.CREATED_BY_JOB_TEMPLATE, keys.CREATED_BY_JOB_FLOW, keys.FLOW_RETRY, keys.SUBMITTED_BY)
_LAST_APPLIED: Final = "kubectl.kubernetes.io/last-applied-configuration"


def made_from(template: JobTemplate, jobs: Iterable[Job]) -> tuple[str, ...]:
    """Return the desired `status.jobDependsOnList`: the existing Jobs that were created from the template, the oldest first.

    When no such Job exists any more, the list keeps its previous value.
    """
    there = sorted(jobs, key=lambda job: (job.metadata.creation_timestamp or "", job.metadata.name))
    names = tuple(job.metadata.name for job in there)[-MOST_NAMES:]
    return names or template.status.job_depends_on_list


def template_from(job: Mapping[str, Any], name: str = "") -> dict[str, Any]:
    """Return a JobTemplate from which `job` can be created again. `name`: the name of the template; empty for the name of the
    Job.

    Fields set by the API server or a flow are left out, and so are claims that the controller created for this Job only.
    """
    return {
        "apiVersion": JOB_TEMPLATES.api_version,
        "kind": JOB_TEMPLATES.kind,
        "metadata": _metadata(job, name),
        "spec": _without_made_claims(job),
    }


def job_of(template: Mapping[str, Any], name: str = "") -> dict[str, Any]:
    """Return the Job that `template` describes. `name`: the name of the Job; empty for the name of the template."""
    return {
        "apiVersion": JOBS.api_version,
        "kind": JOBS.kind,
        "metadata": _metadata(template, name),
        "spec": dict(template.get("spec") or {}),
    }


def _metadata(body: Mapping[str, Any], name: str) -> dict[str, Any]:
    """Return name, namespace, labels and annotations as the user set them."""
    given: Mapping[str, Any] = body.get("metadata") or {}
    metadata: dict[str, Any] = {key: given[key] for key in ("name", "generateName", "namespace") if given.get(key)}
    if name:
        metadata.pop("generateName", None)
        metadata["name"] = name
    for part in ("labels", "annotations"):
        kept = {key: value for key, value in (given.get(part) or {}).items() if key not in (*_OF_FLOWS, _LAST_APPLIED)}
        if kept:
            metadata[part] = kept
    return metadata


def _without_made_claims(job: Mapping[str, Any]) -> dict[str, Any]:
    spec = dict(job.get("spec") or {})
    prefix = f"{(job.get('metadata') or {}).get('name', '')}-pvc-"
    volumes = spec.get("volumes")
    if isinstance(volumes, list):
        spec["volumes"] = [_without_made_claim(volume, prefix) for volume in volumes]
    return spec


def _without_made_claim(volume: Mapping[str, Any], prefix: str) -> dict[str, Any]:
    is_made = bool(volume.get("volumeClaim")) and str(volume.get("volumeClaimName") or "").startswith(prefix)
    return {key: value for key, value in volume.items() if not (is_made and key == "volumeClaimName")}


class TemplateController:
    """Reconciles a template when it appears, and when a Job that was made from it is created or deleted."""

    def __init__(self, shared: Shared, queue: ShardedQueue[Key]) -> None:
        self._client, self._caches, self._clock = shared.client, shared.caches, shared.clock
        self._queue = queue
        self._paces: dict[Key, Pace] = {}
        self._caches.templates.on_change(self._template)
        self._caches.jobs.informer.on_change(self._job)

    def enqueue_all(self) -> None:
        """Enqueue every template of this replica's shards, after the replica became their leader."""
        for template in self._caches.templates.values():
            self._queue.add(template.key)

    async def reconcile(self, key: Key) -> None:
        """Write the names of the Jobs into the status of template `key`, if they have changed and the status may be written
        again.
        """
        template = self._caches.templates.get(key)
        if template is None:
            self._paces.pop(key, None)
            return
        names = made_from(template, self._caches.jobs.informer.by_index(TEMPLATE, str(key)))
        if names == template.status.job_depends_on_list:
            return
        pace = self._paces.setdefault(key, Pace(self._clock))
        if pause := pace.wait():
            self._queue.add_after(key, pause)
            return
        meta = template.metadata
        patch = {
            "metadata": {"uid": meta.uid, "resourceVersion": meta.resource_version},
            "status": {"jobDependsOnList": names},
        }
        try:
            await self._client.patch(JOB_TEMPLATES, key, patch, PatchKind.MERGE, subresource="status")
        except (Conflict, NotFound):
            self._queue.add_rate_limited(key)  # the template has changed or was deleted, and the watch delivers the change
            return
        pace.written()

    def _template(self, old: JobTemplate | None, new: JobTemplate | None) -> None:
        template = new or old
        if template is not None and (old is None or new is None):
            self._queue.add(template.key)

    def _job(self, old: Job | None, new: Job | None) -> None:
        job = new or old
        key = template_of(job) if job is not None and (old is None or new is None) else None
        if key is not None:
            self._queue.add(key)
