"""The Jobs that were made from a JobTemplate: the names of them in the status of each JobTemplate."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from pyroclast.api.records import Job, JobTemplate
from pyroclast.api.types import JOB_TEMPLATES, Key
from pyroclast.kube.basics.errors import Conflict, NotFound
from pyroclast.kube.http.client import PatchKind
from pyroclast.kube.workqueue.sharded_queue import ShardedQueue
from pyroclast.lifecycle.flow.jobs import template_of
from pyroclast.runtime.reconciler import Pace
from pyroclast_jobflow_controller.caches import TEMPLATE, Shared

MOST_NAMES: Final = 5000
"""The most Jobs that the status of a template names, the latest ones, because the size of an object is limited."""


def made_from(template: JobTemplate, jobs: Iterable[Job]) -> tuple[str, ...]:
    """Return the desired `status.jobDependsOnList`: the existing Jobs that were created from the template, the oldest first.

    When no such Job exists any more, the list keeps its previous value.
    """
    there = sorted(jobs, key=lambda job: (job.metadata.creation_timestamp or "", job.metadata.name))
    names = tuple(job.metadata.name for job in there)[-MOST_NAMES:]
    return names or template.status.job_depends_on_list


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
        """Write the names of the Jobs into the status of template `key`, if they have changed."""
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
