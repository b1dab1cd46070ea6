"""The creation, marking and deletion of the pods of a Job."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable, Collection, Iterable, Mapping
from typing import Any, Final

import structlog

from pyroclast.api import keys
from pyroclast.api.enums import JobEventReason
from pyroclast.api.records import Job, Pod, reading
from pyroclast.api.types import JOBS, PODS, Key
from pyroclast.kube.basics.errors import (
    AlreadyExists,
    ApiError,
    Conflict,
    KubeError,
    NotFound,
    is_broken,
    is_terminating_namespace,
    is_transient,
)
from pyroclast.kube.http.batches import FIRST_BATCH, LARGEST_BATCH, at_once, slow_start
from pyroclast.kube.http.client import Client, PatchKind
from pyroclast.kube.http.response_records import found
from pyroclast.kube.watch.own_writes import Recent
from pyroclast.lifecycle.effects import CreatePods, DeletePods, MarkPods, Slot, Victim
from pyroclast.lifecycle.gang import members, pods
from pyroclast.lifecycle.gang.plan import MOST_CREATED
from pyroclast.lifecycle.job.job_events import Occurrence
from pyroclast.lifecycle.jobplugins import PluginError
from pyroclast.lifecycle.times import parse_time
from pyroclast.runtime.in_process.creation import Creator
from pyroclast_job_controller.blocked import Blocked, Cause, NamespaceTerminating, Outage, TransientError, is_quota, unusable
from pyroclast_job_controller.job.creation_queue import CreationQueue, Owner
from pyroclast_job_controller.job.memory import JobMemory
from pyroclast_job_controller.job.seats import Seating
from pyroclast_job_controller.plugins.registry import adapted, plugins_of

log = structlog.get_logger()

_AT_ONCE: Final = 48
"""The most concurrent pod creations: the number of concurrent requests of the client."""

_ITS_NAME: Final = re.compile(r'^pods "[^"]*"')
"""The beginning of an error about a pod. Errors that differ only in the name of the pod are reported once."""

_FEW: Final = 8
"""Up to this number, pods are read one by one; above it, all pods of the namespace are listed."""

_MARK_TRIES: Final = 5

_MOST_TOLD: Final = 3
"""The most errors in the text of one Event."""


class PodActions:
    """Carries out the effects on pods. `creator`: creates the pods.

    `observe_latency`: called for each pod with the milliseconds from the creation of the Job to the creation of the pod.
    `gets_on`: called with the key of a Job after each pod, because ten thousand pods may take long with few requests a second.
    `waiting`: returns the number of Jobs that wait for a worker.
    """

    def __init__(
        self,
        client: Client,
        creator: Creator,
        recent: Recent[Pod],
        observe_latency: Callable[[float], None],
        gets_on: Callable[[Key], None],
        *,
        waiting: Callable[[], int] = lambda: 0,
    ) -> None:
        self._client, self._creator, self._recent = client, creator, recent
        self._observe_latency, self._gets_on = observe_latency, gets_on
        self._creation_queue = CreationQueue(_AT_ONCE, waiting)
        self._creating: set[Key] = set()

    async def carry_out(
        self,
        job: Job,
        effect: CreatePods | MarkPods | DeletePods,
        memory: JobMemory,
        *,
        forwarding: bool,
        seating: Seating | None = None,
        native_group: str = "",
        described_group: str = "",
    ) -> tuple[Slot, ...]:
        """Carry out `effect`, and return the slots whose pods are left for a later turn of the Job.

        After a refusal, the first batch of creations has only one pod.

        `forwarding`: whether the queue forwards its Jobs to other clusters. `seating`: the seats on which pods are created
        directly; None without seats. `native_group`: the name of the native PodGroup of the gang; empty when there is none.
        `described_group`: what the missing PodGroup of a gang of one pod would contain; empty when there is a PodGroup.
        """
        match effect:
            case CreatePods():
                native = {"podGroupName": native_group} if native_group else None
                return await self._create_all(
                    job, effect, memory, seating, native, forwarding=forwarding, described_group=described_group
                )
            case MarkPods():
                await self._mark_all(job, effect)
            case DeletePods():
                await self._delete_all(job, effect, memory)
        return ()

    async def _create_all(
        self,
        job: Job,
        effect: CreatePods,
        memory: JobMemory,
        seating: Seating | None,
        native: dict[str, str] | None,
        *,
        forwarding: bool,
        described_group: str,
    ) -> tuple[Slot, ...]:
        tasks = {task.name: task for task in job.spec.tasks}
        try:
            plugins = plugins_of(job)
        except PluginError as error:
            raise unusable(error) from error

        needed = frozenset(effect.slots[: len(effect.slots) - effect.elastic])
        left: list[Slot] = []

        async def create(slot: Slot) -> None:
            if turn.is_over:
                left.append(slot)
                return
            task = tasks[slot.task]
            manifest = pods.build(job, task, slot.index, forwarding=forwarding, described_group=described_group)
            try:
                manifest = adapted(plugins, job, task, slot.index, manifest)
            except PluginError as error:
                raise unusable(error) from error
            if native is not None:
                manifest["spec"]["schedulingGroup"] = native
            if not await self._creation_queue.enter(turn, is_needed=slot in needed):
                left.append(slot)
                return
            try:
                node = seating.take(slot, manifest) if seating is not None else ""
                pod = await self._create(job, manifest)
                if seating is not None and node and (pod := seating.misfit(slot, pod)) is not None:
                    await self._delete(job, Victim(pod.metadata.name, pod.metadata.uid), grace_seconds=0)
            finally:
                self._creation_queue.leave(turn, is_needed=slot in needed)
                for key in self._creating:  # the queue moves for the later gangs as well
                    self._gets_on(key)

        by_task: dict[str, list[Slot]] = {}
        for slot in effect.slots:
            by_task.setdefault(slot.task, []).append(slot)
        first = 1 if memory.was_refused else memory.next_batch
        turn = self._creation_queue.open(Owner(job.metadata.uid, job.metadata.namespace, job.spec.queue), len(needed))
        self._creating.add(job.key)
        try:
            creations = (slow_start(slots, create, first=first) for slots in by_task.values())
            tries = await asyncio.gather(*creations, return_exceptions=True)
        finally:
            self._creating.discard(job.key)
            self._creation_queue.close(turn)
        errors: list[KubeError] = []
        for refusals in tries:  # a refused task does not block other tasks
            if isinstance(refusals, BaseException):
                raise refusals
            errors += refusals
        has_more = bool(left) or len(effect.slots) >= MOST_CREATED
        memory.next_batch = LARGEST_BATCH if has_more and not errors else FIRST_BATCH
        self._raise(errors, JobEventReason.FAILED_CREATE, "Error creating pods")
        log.info("pods.created", job=str(job.key), version=job.status.version, pods=len(effect.slots) - len(left))
        return tuple(left)

    async def _mark_all(self, job: Job, effect: MarkPods) -> None:
        async def mark(victim: Victim) -> None:
            try:
                await self._mark(Key(job.metadata.namespace, victim.name), victim.uid)
            finally:
                self._gets_on(job.key)

        self._raise(await at_once(effect.victims, mark), JobEventReason.FAILED_DELETE, "Error deleting pods")

    async def describe_group(self, key: Key, text: str | None) -> None:
        """Write on a pod, if it exists, what its missing PodGroup would contain; None when there is a PodGroup now."""
        patch = {"metadata": {"annotations": {keys.POD_GROUP: text}, "labels": {keys.POD_GROUP: "none" if text else None}}}
        try:
            self._recent.put(_pod(await self._client.patch(PODS, key, patch, PatchKind.MERGE)))
        except NotFound:
            log.debug("pod.gone", pod=str(key))

    async def _mark(self, key: Key, uid: str) -> None:
        """Mark a pod, if it exists.

        After a conflict the write is tried again at once, because a marked pod is restarted even if other pods are not marked.
        """
        patch = {"metadata": {"uid": uid, "annotations": {keys.OUT_OF_SYNC: "true"}}}
        for tries_left in reversed(range(_MARK_TRIES)):
            try:
                self._recent.put(_pod(await self._client.patch(PODS, key, patch, PatchKind.MERGE)))
            except NotFound:
                break
            except Conflict:  # another pod has the name, or another client has just written to the pod
                pod = await self._find(key)
                if pod is None or pod.metadata.uid != uid:
                    break
                if not tries_left:
                    raise
            else:
                return
        self._recent.gone(key, uid)

    async def _delete_all(self, job: Job, effect: DeletePods, memory: JobMemory) -> None:
        errors: list[KubeError] = []
        for victim in effect.victims:  # before the watch reports the deletion
            pod = self._recent.get(Key(job.metadata.namespace, victim.name))
            if pod is not None and pod.metadata.uid == victim.uid:
                memory.deleted.add(victim.uid)
        if effect.in_order:
            for victim in effect.victims:
                errors += await at_once([victim], lambda one: self._delete(job, one))
        else:
            errors = await at_once(effect.victims, lambda one: self._delete(job, one))
        self._raise(errors, JobEventReason.FAILED_DELETE, "Error deleting pods")
        log.info("pods.deleted", job=str(job.key), version=job.status.version, pods=len(effect.victims))

    async def _create(self, job: Job, manifest: dict[str, Any]) -> Pod | None:
        """Create a pod and return it; None when the pod existed already."""
        try:
            pod = _pod(await self._creator.create(manifest))
        except AlreadyExists:
            await self._adopt(job, manifest)
            return None
        self._recent.put(pod)
        if job.metadata.creation_timestamp and pod.metadata.creation_timestamp:
            age = parse_time(pod.metadata.creation_timestamp) - parse_time(job.metadata.creation_timestamp)
            self._observe_latency(age * 1000)
        return pod

    async def _adopt(self, job: Job, manifest: dict[str, Any]) -> None:
        """Handle an existing pod with the name in `manifest`.

        A pod of `job` is used, because the response to its creation was lost. A pod of another owner raises an error.
        """
        key = Key(job.metadata.namespace, manifest["metadata"]["name"])
        pod = _pod(await self._client.get(PODS, key))
        owner = members.owner_of(pod)
        if owner is not None and owner.uid == job.metadata.uid:
            if await self._restore(pod, manifest["metadata"]["labels"]):
                raise TransientError(f"pod {pod.key} had lost its labels")  # the watch will report the pod again
            self._recent.put(pod)
            return
        if pod.metadata.is_terminating or (owner is not None and owner.name == job.metadata.name and owner.kind == JOBS.kind):
            raise TransientError(f"pod {key} of a Job that had the same name is still there")
        whose, cause = "exists and does not belong to this job", Cause.FAULT
        if owner is None and pod.metadata.annotations.get(keys.JOB_NAME) == job.metadata.name:
            whose = "was left behind by a Job of this name that was deleted without its pods: the Job starts when it has gone"
            cause = Cause.LEFTOVER
        raise Blocked(JobEventReason.FAILED_CREATE, f"Error creating pods: [pod {key} {whose}]", cause)

    async def really_gone(self, job: Job, vanished: Iterable[Occurrence], *, forwarding: bool) -> list[Occurrence]:
        """Return the occurrences of `vanished` whose pods do not exist any more.

        An existing pod gets back the labels by which the controller watches pods, and TransientError is raised.
        """
        gone, restored = [], []
        vanished = list(vanished)
        there = await self._present(job.metadata.namespace, {occurrence.pod for occurrence in vanished})
        for occurrence in vanished:
            key = Key(job.metadata.namespace, occurrence.pod)
            pod = there.get(occurrence.pod)
            is_other = pod is None or members.owner_uid(pod) != job.metadata.uid
            if pod is None or is_other or (occurrence.uid and pod.metadata.uid != occurrence.uid):
                gone.append(occurrence)
            elif await self._restore(pod, pods.labels_of(job, occurrence.task, members.index_of(pod), forwarding=forwarding)):
                restored.append(str(key))
        if restored:
            raise TransientError(f"pods had lost their labels: {', '.join(restored)}")
        return gone

    async def _present(self, namespace: str, names: Collection[str]) -> Mapping[str, Pod]:
        """Return the existing pods with these names, by name, regardless of their labels. Many pods are read with one list."""
        if len(names) <= _FEW:
            there = [await self._find(Key(namespace, name)) for name in sorted(names)]
        else:
            items, _ = await self._client.list(PODS, namespace)
            there = [_pod(item) for item in items if item["metadata"]["name"] in names]
        return {pod.metadata.name: pod for pod in there if pod is not None}

    async def _find(self, key: Key) -> Pod | None:
        answer = await found(self._client.get(PODS, key))
        return None if answer is None else _pod(answer)

    async def _restore(self, pod: Pod, labels: Mapping[str, str]) -> bool:
        """Restore `labels` on `pod` if it has lost the label of the watch; return whether it had lost the label."""
        if keys.JOB_NAME in pod.metadata.labels:
            return False
        log.warning("pod.labels_restored", pod=str(pod.key))
        patch = {"metadata": {"uid": pod.metadata.uid, "labels": dict(labels)}}
        await self._client.patch(PODS, pod.key, patch, PatchKind.MERGE)
        return True

    async def _delete(self, job: Job, victim: Victim, *, grace_seconds: int | None = None) -> None:
        key = Key(job.metadata.namespace, victim.name)
        try:
            answer = await self._client.delete(PODS, key, uid=victim.uid, grace_seconds=grace_seconds)
        except (NotFound, Conflict):  # the pod is gone, or another pod has its name
            self._recent.gone(key, victim.uid)
            return
        finally:
            self._gets_on(job.key)
        if answer.get("kind") == PODS.kind:
            self._recent.put(_pod(answer))
        else:
            self._recent.gone(key, victim.uid)

    @staticmethod
    def _raise(errors: list[KubeError], reason: JobEventReason, what: str) -> None:
        if not errors:
            return
        if any(map(is_terminating_namespace, errors)):
            raise NamespaceTerminating
        refused = [error for error in errors if not is_transient(error)]
        reported = refused or [error for error in errors if is_broken(error)]
        if not reported:
            raise errors[0]
        texts = list({_ITS_NAME.sub("", error.message): error.message for error in reversed(reported)}.values())[::-1]
        cause = Cause.QUOTA if all(isinstance(error, ApiError) and is_quota(error) for error in refused) else Cause.FAULT
        if len(texts) > _MOST_TOLD:
            texts[_MOST_TOLD:] = [f"and {len(texts) - _MOST_TOLD} more"]
        message = f"{what}: [{' '.join(texts)}]"
        raise Blocked(reason, message, cause) if refused else Outage(reason, message)


def _pod(body: dict[str, Any]) -> Pod:
    return reading.convert(body, Pod)
