"""Creating, marking and deleting the pods of a Job."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import msgspec
import structlog

from pyroclast.api import keys
from pyroclast.api.enums import JobEventReason
from pyroclast.api.records import Job, Pod
from pyroclast.api.types import JOBS, PODS, Key
from pyroclast.kube.client import Client, PatchKind
from pyroclast.kube.errors import AlreadyExists, Conflict, KubeError, NotFound
from pyroclast.lifecycle import members, pods
from pyroclast.lifecycle.effects import CreatePods, DeletePods, MarkPods, Slot, Victim
from pyroclast.lifecycle.times import parse_time
from pyroclast_job_controller.batches import FIRST_BATCH, at_once, slow_start
from pyroclast_job_controller.plugins.registry import UnknownPlugin, plugins_of
from pyroclast_job_controller.recent import Recent
from pyroclast_job_controller.refusal import (
    Hindrance,
    NamespaceGoing,
    Refusal,
    Trouble,
    is_broken,
    is_terminating_namespace,
    is_transient,
)

__all__ = ["PodActions"]

log = structlog.get_logger()

_MOST_TOLD: Final = 3
"""How many errors an Event spells out."""


class PodActions:
    """Carries out the effects on pods. `observe_latency` is told how many milliseconds after its Job each pod was made."""

    def __init__(self, client: Client, recent: Recent[Pod], observe_latency: Callable[[float], None]) -> None:
        self._client, self._recent, self._observe_latency = client, recent, observe_latency

    async def carry_out(self, job: Job, effect: CreatePods | MarkPods | DeletePods, *, forwarding: bool, careful: bool) -> None:
        """Do it. `forwarding`: the queue sends its Jobs to other clusters; `careful`: a refusal came before, so begin with one.

        Raises:
            Refusal: the API server does not take them.
            Hindrance: they cannot come now, but will.
            KubeError: it is not known whether they were taken.
        """
        match effect:
            case CreatePods():
                await self._create_all(job, effect, forwarding=forwarding, careful=careful)
            case MarkPods():
                await self._mark_all(job, effect)
            case DeletePods():
                await self._delete_all(job, effect)

    async def _create_all(self, job: Job, effect: CreatePods, *, forwarding: bool, careful: bool) -> None:
        try:
            plugins = plugins_of(job)
        except UnknownPlugin as error:
            raise Refusal(JobEventReason.PLUGIN_ERROR, str(error)) from error
        tasks = {task.name: task for task in job.spec.tasks}

        async def create(slot: Slot) -> None:
            manifest = pods.build(job, tasks[slot.task], slot.index, forwarding=forwarding)
            for plugin in plugins:
                plugin.adapt(job, tasks[slot.task], slot.index, manifest)
            await self._create(job, manifest)

        errors = await slow_start(effect.slots, create, first=1 if careful else FIRST_BATCH)
        self._raise(errors, JobEventReason.FAILED_CREATE, "Error creating pods")
        log.info("pods.created", job=str(job.key), version=job.status.version, pods=len(effect.slots))

    async def _mark_all(self, job: Job, effect: MarkPods) -> None:
        async def mark(victim: Victim) -> None:
            key = Key(job.metadata.namespace, victim.name)
            patch = {"metadata": {"uid": victim.uid, "annotations": {keys.OUT_OF_SYNC: "true"}}}
            try:
                self._recent.put(_pod(await self._client.patch(PODS, key, patch, PatchKind.MERGE)))
            except (NotFound, Conflict):
                self._recent.gone(key, victim.uid)

        self._raise(await at_once(effect.victims, mark), JobEventReason.FAILED_DELETE, "Error deleting pods")

    async def _delete_all(self, job: Job, effect: DeletePods) -> None:
        errors: list[KubeError] = []
        if effect.in_order:
            for victim in effect.victims:
                errors += await at_once([victim], lambda one: self._delete(job, one))
        else:
            errors = await at_once(effect.victims, lambda one: self._delete(job, one))
        self._raise(errors, JobEventReason.FAILED_DELETE, "Error deleting pods")
        log.info("pods.deleted", job=str(job.key), version=job.status.version, pods=len(effect.victims))

    async def _create(self, job: Job, manifest: dict[str, Any]) -> None:
        try:
            pod = _pod(await self._client.create(PODS, manifest))
        except AlreadyExists:
            await self._adopt(job, manifest)
            return
        self._recent.put(pod)
        if job.metadata.creation_timestamp and pod.metadata.creation_timestamp:
            age = parse_time(pod.metadata.creation_timestamp) - parse_time(job.metadata.creation_timestamp)
            self._observe_latency(age * 1000)

    async def _adopt(self, job: Job, manifest: dict[str, Any]) -> None:
        """There is a pod of that name. Either it is ours (an answer was lost), or its owner has to make room."""
        key = Key(job.metadata.namespace, manifest["metadata"]["name"])
        pod = _pod(await self._client.get(PODS, key))
        owner = members.owner_of(pod)
        if owner is not None and owner.uid == job.metadata.uid:
            await self._take_back(pod, manifest)
            return
        if pod.metadata.is_terminating or (owner is not None and owner.name == job.metadata.name and owner.kind == JOBS.kind):
            raise Hindrance(f"pod {key} of a Job that had the same name is still there")
        raise Refusal(JobEventReason.FAILED_CREATE, f"Error creating pods: [pod {key} exists and does not belong to this job]")

    async def _take_back(self, pod: Pod, manifest: dict[str, Any]) -> None:
        """Know `pod` as ours; one that lost the label by which the watch finds it gets back all that it should have."""
        if keys.JOB_NAME in pod.metadata.labels:
            self._recent.put(pod)
            return
        log.warning("pod.labels_restored", pod=str(pod.key))
        patch = {"metadata": {"uid": pod.metadata.uid, "labels": manifest["metadata"]["labels"]}}
        await self._client.patch(PODS, pod.key, patch, PatchKind.MERGE)
        raise Hindrance(f"pod {pod.key} had lost its labels")  # the watch will show it again

    async def _delete(self, job: Job, victim: Victim) -> None:
        key = Key(job.metadata.namespace, victim.name)
        try:
            answer = await self._client.delete(PODS, key, uid=victim.uid)
        except (NotFound, Conflict):  # it has gone, and perhaps another has its name
            self._recent.gone(key, victim.uid)
            return
        if answer.get("kind") == PODS.kind:
            self._recent.put(_pod(answer))
        else:
            self._recent.gone(key, victim.uid)

    @staticmethod
    def _raise(errors: list[KubeError], reason: JobEventReason, what: str) -> None:
        if not errors:
            return
        if any(map(is_terminating_namespace, errors)):
            raise NamespaceGoing
        refused = [error for error in errors if not is_transient(error)]
        told = refused or [error for error in errors if is_broken(error)]
        if not told:
            raise errors[0]
        texts = list(dict.fromkeys(error.message for error in told))
        if len(texts) > _MOST_TOLD:
            texts[_MOST_TOLD:] = [f"and {len(texts) - _MOST_TOLD} more"]
        raise (Refusal if refused else Trouble)(reason, f"{what}: [{' '.join(texts)}]")


def _pod(body: dict[str, Any]) -> Pod:
    return msgspec.convert(body, Pod)
