"""The execution of the effects of a decision about a Job. This module and its helpers do all writes for Jobs."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, assert_never

import msgspec
import structlog

from pyroclast.api import keys
from pyroclast.api.enums import JobEventReason
from pyroclast.api.pod_groups_on_pods import is_described
from pyroclast.api.records import Job, JobStatus, Meta, PersistentVolumeClaim, PodGroup, reading
from pyroclast.api.types import JOBS, PERSISTENT_VOLUME_CLAIMS, POD_GROUPS, Key
from pyroclast.kube.basics.errors import AlreadyExists, ApiError, Conflict, NotFound
from pyroclast.kube.events.correlator import Reference
from pyroclast.kube.http.client import PatchKind
from pyroclast.kube.http.response_records import record_of
from pyroclast.lifecycle import effects
from pyroclast.lifecycle.gang import podgroups
from pyroclast.lifecycle.gang.members import is_ours
from pyroclast.lifecycle.gang.plan import MOST_CREATED
from pyroclast.lifecycle.job import preparation
from pyroclast.lifecycle.job.facts import JobFacts
from pyroclast.lifecycle.job.job_events import Occurrence
from pyroclast.lifecycle.job.status import written
from pyroclast.lifecycle.merging import merge_patch
from pyroclast_job_controller.blocked import Blocked, TransientError, explained
from pyroclast_job_controller.caches import Shared
from pyroclast_job_controller.job.memory import JobMemory
from pyroclast_job_controller.job.native_groups import NativePublisher
from pyroclast_job_controller.job.plugin_actions import PluginActions
from pyroclast_job_controller.job.pod_actions import PodActions
from pyroclast_job_controller.job.seats import SeatPublisher
from pyroclast_job_controller.podgroup.controller import GroupAdmission

log = structlog.get_logger()


class JobActions:
    """Carries out effects on Jobs, pods and other objects.

    The caches store the response to each write until the watch delivers the same object.
    """

    def __init__(
        self,
        shared: Shared,
        pods: PodActions,
        plugins: PluginActions,
        *,
        seats: SeatPublisher,
        admission: GroupAdmission,
        natives: NativePublisher,
    ) -> None:
        self._client, self._caches, self._pods, self._plugins = shared.client, shared.caches, pods, plugins
        self._foreign, self._recorder = shared.foreign, shared.recorder
        self._seats, self._admission, self._natives = seats, admission, natives

    async def carry_out(self, facts: JobFacts, memory: JobMemory, effect: effects.Effect) -> bool:
        """Carry out `effect`. Return False when some of its pods are left for a later turn of the Job.

        Raises:
            Blocked: the API server refuses the write, or an object of another owner has the name.
            TransientError: the effect must wait for an obstacle that disappears by itself.
            KubeError: the write failed, or its result is unknown.
        """
        job = facts.job
        match effect:
            case effects.CreatePods() | effects.MarkPods() | effects.DeletePods():
                return await self._carry_out_on_pods(facts, memory, effect)
            case effects.PreparePlugins():
                await self._plugins.prepare(job, memory)
                memory.prepared_at = facts.now
            case effects.RemovePlugins():
                await self._plugins.remove(job, memory)
            case effects.CreateGroup(manifest):
                await self._publish_group(facts, dict(manifest))
                memory.carried = podgroups.inherited(job)
            case effects.PatchGroup(name, patch):
                await self._update_group(facts, Key(job.metadata.namespace, name), dict(patch))
                memory.carried = podgroups.inherited(job)
            case effects.AskSeats(name):
                patch = await self._seats.asked(facts, effect, forwarding=preparation.forwards(facts))
                await self._patch_group(Key(job.metadata.namespace, name), patch)
            case effects.DeleteGroup(name, uid):
                await self._delete_group(Key(job.metadata.namespace, name), uid)
            case effects.AnnotateJob(annotations):
                patch = {"metadata": {"uid": job.metadata.uid, "annotations": dict(annotations)}}
                self._keep_job(await self._client.patch(JOBS, job.key, patch, PatchKind.MERGE))
            case effects.WriteStatus(status):
                await self.write_status(job, status)
            case effects.NameClaims(names):
                await self._name_claims(job, dict(names))
            case effects.CreateClaims(positions):
                await self._create_claims(job, positions)
            case _:
                assert_never(effect)
        return True

    async def _create_pods(self, facts: JobFacts, memory: JobMemory, effect: effects.CreatePods) -> tuple[effects.Slot, ...]:
        job, forwarding = facts.job, preparation.forwards(facts)
        group = podgroups.on_pod(job, facts.priorities, facts.additions) if facts.has_no_group else ""
        native = facts.group.metadata.annotations.get(keys.NATIVE_GROUP, "") if facts.group is not None else ""
        if any(slot.node for slot in effect.slots):
            seating = self._seats.seating(facts, memory, self._caches.groups.get)
            with seating.closing_when_refused():
                left = await self._pods.carry_out(
                    job, effect, memory, forwarding=forwarding, seating=seating, native_group=native
                )
            seating.memory.seated.update(effects.Slot(slot.task, slot.index) for slot in effect.slots if slot not in left)
        else:  # the scheduler has no node for these seats
            left = await self._pods.carry_out(
                job, effect, memory, forwarding=forwarding, native_group=native, described_group=group
            )
            memory.seats(facts.group).seated.update(set(effect.slots).difference(left))
        return left

    async def _carry_out_on_pods(
        self, facts: JobFacts, memory: JobMemory, effect: effects.CreatePods | effects.MarkPods | effects.DeletePods
    ) -> bool:
        if isinstance(effect, effects.CreatePods):
            return not await self._create_pods(facts, memory, effect) and len(effect.slots) < MOST_CREATED
        await self._pods.carry_out(facts.job, effect, memory, forwarding=preparation.forwards(facts))
        if isinstance(effect, effects.DeletePods) and effect.gives_back:
            log.info("gang.gave_back", job=str(facts.job.key), pods=len(effect.victims))
            memory.gave_back(facts.now)
        return True

    async def really_gone(self, facts: JobFacts, vanished: Iterable[Occurrence]) -> list[Occurrence]:
        """Return the occurrences of `vanished` whose pods do not exist any more; see `PodActions.really_gone`."""
        return await self._pods.really_gone(facts.job, vanished, forwarding=preparation.forwards(facts))

    async def write_status(self, job: Job, status: JobStatus) -> None:
        """Write `status` to the API server if `job` is the newest version of the Job; else raise Conflict."""
        meta = job.metadata
        patch = {
            "metadata": {"uid": meta.uid, "resourceVersion": meta.resource_version},
            "status": merge_patch(written(job.status), written(status)),
        }
        answer = await self._client.patch(JOBS, job.key, patch, PatchKind.MERGE, subresource="status")
        if self._foreign is not None and (text := self._foreign.notice(f"Job {job.key}", answer["metadata"])):
            self._recorder.event(Reference.of(job, JOBS), "Warning", "AnotherProgramWrites", text)
        # the write is rejected if the Job changed meanwhile, so only resourceVersion is new in the response
        version = msgspec.structs.replace(meta, resource_version=answer["metadata"]["resourceVersion"])
        self._caches.jobs.put(msgspec.structs.replace(job, metadata=version, status=status))

    async def _publish_group(self, facts: JobFacts, manifest: dict[str, Any]) -> None:
        published = await self._seats.published(facts.job, manifest, forwarding=preparation.forwards(facts))
        await self._create_group(facts.job, await self._natives.published(facts.job, published))
        for pod in filter(is_described, facts.pods.by_name.values()):  # of a Job that had one pod
            await self._pods.describe_group(pod.key, None)

    async def _create_group(self, job: Job, manifest: dict[str, Any]) -> None:
        key = Key(job.metadata.namespace, manifest["metadata"]["name"])
        try:
            answer = await self._admission.create(manifest)
        except AlreadyExists:
            answer = _own(job, await self._client.get(POD_GROUPS, key), JobEventReason.POD_GROUP_ERROR)
        except ApiError as error:
            raise explained(error, JobEventReason.POD_GROUP_ERROR, "Failed to create PodGroup, err: ") from error
        self._caches.groups.put(record_of(answer, PodGroup))

    async def _update_group(self, facts: JobFacts, key: Key, patch: dict[str, Any]) -> None:
        if facts.has_no_group:
            text = podgroups.on_pod(podgroups.remaining(facts.job, facts.pods), facts.priorities, facts.additions)
            await self._pods.describe_group(key, text)
            return
        await self._natives.resize(facts.group, patch)
        await self._patch_group(key, patch)

    async def _patch_group(self, key: Key, patch: dict[str, Any]) -> None:
        try:
            answer = await self._client.patch(POD_GROUPS, key, patch, PatchKind.MERGE)
        except ApiError as error:
            raise explained(error, JobEventReason.POD_GROUP_ERROR, "Failed to create PodGroup, err: ") from error
        self._caches.groups.put(record_of(answer, PodGroup))

    async def _delete_group(self, key: Key, uid: str) -> None:
        try:
            answer = await self._client.delete(POD_GROUPS, key, uid=uid)
        except (NotFound, Conflict):
            log.debug("podgroup.gone", podgroup=str(key))
            answer = {}
        if answer.get("kind") == POD_GROUPS.kind:
            self._caches.groups.put(record_of(answer, PodGroup))
            raise TransientError(f"PodGroup {key} waits for its finalizers")
        self._caches.groups.gone(key, uid)

    async def _name_claims(self, job: Job, names: dict[int, str]) -> None:
        patch = [{"op": "test", "path": "/metadata/uid", "value": job.metadata.uid}]
        patch += [
            {"op": "add", "path": f"/spec/volumes/{position}/volumeClaimName", "value": name} for position, name in names.items()
        ]
        try:
            self._keep_job(await self._client.patch(JOBS, job.key, patch, PatchKind.JSON))
        except ApiError as error:
            raise explained(error, JobEventReason.PVC_ERROR, "Failed to create PVC, err: ") from error

    async def _create_claims(self, job: Job, positions: Iterable[int]) -> None:
        for manifest in (preparation.claim_manifest(job, position) for position in positions):
            key = Key(job.metadata.namespace, manifest["metadata"]["name"])
            try:
                answer = await self._client.create(PERSISTENT_VOLUME_CLAIMS, manifest)
            except AlreadyExists:
                answer = _own(job, await self._client.get(PERSISTENT_VOLUME_CLAIMS, key), JobEventReason.PVC_ERROR)
            except ApiError as error:
                raise explained(error, JobEventReason.PVC_ERROR, "Failed to create PVC, err: ") from error
            self._caches.claims.put(record_of(answer, PersistentVolumeClaim))

    def _keep_job(self, answer: dict[str, Any]) -> None:
        self._caches.jobs.put(record_of(answer, Job))


def _own(job: Job, there: dict[str, Any], reason: JobEventReason) -> dict[str, Any]:
    """Return `there`, the existing object, if it belongs to `job`: an earlier creation had no response. Else raise Blocked."""
    meta = reading.convert(there["metadata"], Meta)
    if is_ours(job, meta):
        return there
    raise Blocked(reason, f"{there['kind']} {meta.key} exists and does not belong to this job")
