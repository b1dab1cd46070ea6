"""Native PodGroups (`scheduling.k8s.io`) for the gangs of Jobs, so that kubectl and other tools show the gangs."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator
from typing import Any

import structlog

from pyroclast.api import keys
from pyroclast.api.enums import JobEventReason
from pyroclast.api.records import Job, Meta, PodGroup, reading
from pyroclast.api.types import JOBS, NATIVE_POD_GROUPS, Key, ResourceType
from pyroclast.kube.basics.errors import AlreadyExists, ApiError, KubeError, NotFound, is_terminating_namespace, is_transient
from pyroclast.kube.http.client import Client, PatchKind
from pyroclast.kube.http.native_groups import LOOK_SECONDS, kind_served
from pyroclast.lifecycle.effects import Notice, normal
from pyroclast.lifecycle.gang import members
from pyroclast.lifecycle.gang.members import is_ours, min_available, total_replicas
from pyroclast.lifecycle.gang.pods import template_of
from pyroclast.lifecycle.merging import controller_reference

log = structlog.get_logger()


class NativePublisher:
    """Creates a native PodGroup for each Job before the Volcano PodGroup, whose annotation names the native PodGroup.

    `schedulers`: the names of our schedulers. Jobs of other schedulers get no native PodGroup, because kube-scheduler would
    schedule their pods as a gang. `record`: records an Event on a Job. `clock`: a monotonic clock, in seconds.
    """

    def __init__(
        self,
        client: Client,
        schedulers: Collection[str],
        record: Callable[[Job, Notice], None],
        clock: Callable[[], float],
        *,
        is_enabled: bool,
    ) -> None:
        self._client, self._schedulers, self._record, self._clock = client, schedulers, record, clock
        self._is_enabled = is_enabled
        self._kind: ResourceType | None = None
        self._look_at = clock()
        self._is_absence_told = False

    async def published(self, job: Job, group: dict[str, Any]) -> dict[str, Any]:
        """Create the native PodGroup of `job`, and return `group`, the manifest of the Volcano PodGroup, with its name.

        `group` is returned unchanged when no native PodGroup is created.
        """
        kind = await self._served() if self._is_enabled else None
        if kind is None:
            return group
        if problem := obstacle(job, self._schedulers) or await self._create(job, manifest(job, kind), kind):
            message = f"The Job has no PodGroup of {kind.group}: {problem}"
            self._record(job, normal(JobEventReason.POD_GROUP_NOT_PUBLISHED, message))
            return group
        meta = group["metadata"]
        return {**group, "metadata": {**meta, "annotations": {**meta["annotations"], keys.NATIVE_GROUP: meta["name"]}}}

    async def resize(self, group: PodGroup | None, patch: dict[str, Any]) -> None:
        """Set the minimum of the native PodGroup to the minimum in `patch`, which is a patch of the Volcano PodGroup `group`."""
        name = "" if group is None else group.metadata.annotations.get(keys.NATIVE_GROUP, "")
        minimum = (patch.get("spec") or {}).get("minMember")
        if group is None or not name or not minimum:
            return
        kind = await self._served()
        if kind is not None:
            await self._set_minimum(kind, Key(group.metadata.namespace, name), minimum)

    async def _set_minimum(self, kind: ResourceType, key: Key, minimum: int) -> None:
        body = {"spec": {"schedulingPolicy": {"gang": {"minCount": minimum}}}}
        try:
            await self._client.patch(kind, key, body, PatchKind.MERGE)
        except NotFound:
            log.info("native_group.gone", podgroup=str(key))
        except ApiError as error:
            if is_transient(error):
                raise
            log.warning("native_group.not_resized", podgroup=str(key), error=str(error))

    async def _create(self, job: Job, body: dict[str, Any], kind: ResourceType) -> str:
        """Create the native PodGroup of `body`; return why it does not exist, empty if it exists."""
        key = Key(job.metadata.namespace, body["metadata"]["name"])
        try:
            await self._client.create(kind, body)
        except AlreadyExists:
            return await self._take_up(job, body, kind, key)
        except NotFound as error:
            self._kind, self._look_at = None, self._clock() + LOOK_SECONDS  # the API server does not serve the kind any more
            return error.message
        except ApiError as error:
            if is_transient(error):
                raise
            return "" if is_terminating_namespace(error) else error.message
        return ""

    async def _take_up(self, job: Job, body: dict[str, Any], kind: ResourceType, key: Key) -> str:
        """Use the existing native PodGroup if it belongs to `job`; return why it cannot be used, empty if it can."""
        there = await self._client.get(kind, key)
        if not is_ours(job, reading.convert(there["metadata"], Meta)):
            return f"PodGroup {key} exists and does not belong to this job"
        wanted = body["spec"]["schedulingPolicy"]["gang"]["minCount"]
        found = ((there["spec"].get("schedulingPolicy") or {}).get("gang") or {}).get("minCount")
        if found != wanted:
            await self._set_minimum(kind, key, wanted)
        return ""

    async def _served(self) -> ResourceType | None:
        """Return the kind under which the API server serves native PodGroups; None when it does not serve them.

        While the API server does not serve them, this checks again at intervals.
        """
        if self._kind is None and self._clock() >= self._look_at:
            self._look_at = self._clock() + LOOK_SECONDS
            try:
                self._kind = await kind_served(self._client)
            except KubeError as error:
                self._look_at = self._clock()
                log.warning("native_groups.not_asked", error=str(error))
                raise
            if self._kind is None and not self._is_absence_told:
                self._is_absence_told = True
                log.info("native_groups.not_served", group=NATIVE_POD_GROUPS.group)
        return self._kind


def obstacle(job: Job, schedulers: Collection[str]) -> str:
    """Return why `job` has no native PodGroup; empty if it may have one. `schedulers`: the names of Pyroclast's schedulers."""
    minimum = min_available(job.spec)
    if minimum < 1:
        return f"spec.minAvailable: {minimum}: a gang of at least 1 pod is expected"
    for i, spec in enumerate(_pod_specs(job)):
        name = spec.get("schedulerName") or job.spec.scheduler_name
        if name not in schedulers:
            ours = ", ".join(sorted(schedulers))
            return f"spec.tasks[{i}]: scheduler {name} places the pods; a scheduler of ours is expected: {ours}"
        if spec.get("schedulingGroup"):
            return f"spec.tasks[{i}].template.spec.schedulingGroup: the pods name another PodGroup; leave the field empty"
    classes = sorted(_priority_classes(job))
    if len(classes) > 1:
        first, second = (f"class {name}" if name else "no class" for name in classes[:2])
        return f"spec.tasks: tasks have different priorities, {first} and {second}; one priority for all is expected"
    return ""


def manifest(job: Job, kind: ResourceType) -> dict[str, Any]:
    """Return the native PodGroup of `job`, in the API version of `kind`. `obstacle` must be empty for `job`."""
    minimum = min_available(job.spec)
    spec: dict[str, Any] = {"schedulingPolicy": {"gang": {"minCount": minimum}}}
    if minimum == total_replicas(job.spec):
        spec["disruptionMode"] = {"all": {}}
    if (name := next(iter(_priority_classes(job)), "")) != "":
        spec["priorityClassName"] = name
    owner = controller_reference(JOBS, job.metadata)
    del owner["blockOwnerDeletion"]  # a cluster may require the right to update finalizers of Jobs for this field
    labels = {keys.JOB_NAME: job.metadata.name, keys.SCHEDULING_QUEUE_NAME: job.spec.queue}
    meta = {"name": members.group_name(job), "namespace": job.metadata.namespace, "labels": labels, "ownerReferences": [owner]}
    return {"apiVersion": kind.api_version, "kind": kind.kind, "metadata": meta, "spec": spec}


def _priority_classes(job: Job) -> set[str]:
    return {spec.get("priorityClassName") or job.spec.priority_class_name for spec in _pod_specs(job)}


def _pod_specs(job: Job) -> Iterator[dict[str, Any]]:
    return (template_of(task).get("spec") or {} for task in job.spec.tasks)
