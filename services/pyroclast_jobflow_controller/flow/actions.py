"""Carries out the effects of a decision about a flow. Every write for a flow is in this module."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final

import msgspec
import structlog

from pyroclast.api import keys
from pyroclast.api.commands import authorization
from pyroclast.api.enums import Action, FlowReason, PodPhase
from pyroclast.api.records import FlowStatus, Job, JobFlow, Pod, reading
from pyroclast.api.types import COMMANDS, JOB_FLOWS, JOBS, PODS, Key
from pyroclast.kube.basics.errors import AlreadyExists, ApiError, Conflict, NotFound, is_broken, is_transient
from pyroclast.kube.http.batches import at_once, slow_start
from pyroclast.kube.http.client import Client, PatchKind
from pyroclast.kube.http.response_records import record_of
from pyroclast.lifecycle.flow.facts import (
    AddFinalizer,
    CancelJob,
    CreateJob,
    DeleteJob,
    Effect,
    FlowFacts,
    Refused,
    ReleaseFlow,
    SuspendJob,
)
from pyroclast.lifecycle.flow.jobs import is_owned, manifest
from pyroclast.lifecycle.flow.patch import PatchError
from pyroclast.lifecycle.flow.status import difference
from pyroclast.lifecycle.gang import members
from pyroclast.resources.backoff import Backoff
from pyroclast.runtime.in_process.creation import Creator
from pyroclast.runtime.in_process.jobs import JobCreator
from pyroclast.runtime.traces import ANNOTATION, context_of, context_within, flow_identity
from pyroclast_jobflow_controller.caches import Caches
from pyroclast_jobflow_controller.flow.memory import FlowMemory

log = structlog.get_logger()

_REFUSAL_PAUSES: Final = Backoff(0.05, 300.0)
"""The pauses before a refused Job is created again. With the longest, it is created within minutes after its queue opens."""


@dataclass(frozen=True, slots=True)
class Creators:
    """The writers that create Jobs and Commands."""

    jobs: JobCreator
    commands: Creator


class FlowActions:
    """Writes to the API server for the flow controller.

    The answer to each write stays in the flow's memory until the watch delivers the same change.

    Args:
        gets_on: called with the key of a flow after each step. With a low request limit, a flow of a thousand Jobs takes long.
        are_traced: whether the Jobs carry the trace context of their flow.
    """

    def __init__(
        self,
        client: Client,
        creators: Creators,
        caches: Caches,
        gets_on: Callable[[Key], None],
        *,
        are_traced: bool = False,
    ) -> None:
        self._client, self._creators, self._caches = client, creators, caches
        self._gets_on, self._are_traced = gets_on, are_traced

    async def carry_out(self, facts: FlowFacts, memory: FlowMemory, effects: Sequence[Effect]) -> list[str]:
        """Carry out the effects. Return the names of the created Jobs.

        A failure for one Job does not stop the other Jobs, and is recorded in the memory.
        """
        flow = facts.flow
        made: list[str] = []
        others = tuple(each for each in flow.metadata.finalizers if each != keys.FLOW_FINALIZER)
        for effect in effects:
            if isinstance(effect, AddFinalizer | ReleaseFlow):
                added = (keys.FLOW_FINALIZER,) if isinstance(effect, AddFinalizer) else ()
                await self._set_finalizers(flow, (*others, *added))

        async def write(effect: CreateJob | DeleteJob | CancelJob) -> None:
            try:
                match effect:
                    case DeleteJob():
                        await self._delete(flow, memory, effect)
                    case CancelJob():
                        await self._cancel(flow, memory, effect)
                    case CreateJob() if await self._create(flow, memory, effect, facts.now):
                        made.append(effect.name)
            finally:
                self._gets_on(flow.key)

        errors = await at_once([effect for effect in effects if isinstance(effect, DeleteJob)], write)
        errors += await at_once([effect for effect in effects if isinstance(effect, CancelJob)], write)
        creations = [effect for effect in effects if isinstance(effect, CreateJob)]
        errors += await slow_start(creations, write, first=1 if memory.refused else 8)
        if errors:
            raise errors[0]
        await self._suspend(flow, [effect for effect in effects if isinstance(effect, SuspendJob)])
        return made

    async def _suspend(self, flow: JobFlow, effects: Sequence[SuspendJob]) -> None:
        """Suspend or resume Jobs, with an annotation that tells the suspension of the flow from one by a user."""

        async def write(effect: SuspendJob) -> None:
            note = {keys.FLOW_SUSPENDED: "true" if effect.suspended else None}
            patch = {"metadata": {"uid": effect.uid, "annotations": note}, "spec": {"suspend": effect.suspended}}
            key = Key(flow.metadata.namespace, effect.name)
            try:
                self._caches.jobs.put(record_of(await self._client.patch(JOBS, key, patch, PatchKind.MERGE), Job))
            except (NotFound, Conflict):
                log.debug("job.gone", job=str(key))
            else:
                log.info("job.suspended" if effect.suspended else "job.resumed", flow=str(flow.key), job=effect.name)
            self._gets_on(flow.key)

        if errors := await at_once(effects, write):
            raise errors[0]

    async def write_status(self, flow: JobFlow, memory: FlowMemory, status: FlowStatus) -> JobFlow:
        """Write the status if `flow` is the newest version of the object. Return the flow with the new status."""
        meta = flow.metadata
        patch = {
            "metadata": {"uid": meta.uid, "resourceVersion": meta.resource_version},
            "status": difference(flow.status, status),
        }
        answer = await self._client.patch(JOB_FLOWS, flow.key, patch, PatchKind.MERGE, subresource="status")
        memory.written = answer["metadata"]["resourceVersion"]
        # the answer may be large and repeats the status: only the resourceVersion is new
        written = msgspec.structs.replace(meta, resource_version=memory.written)
        flow = msgspec.structs.replace(flow, metadata=written, status=status)
        self._caches.flows.put(flow)
        return flow

    async def exit_codes(self, flow: JobFlow, jobs: Sequence[Job]) -> dict[str, int | None]:
        """Return the exit codes of `jobs` by name. The value is None when no pod of the Job reports an exit code."""
        found: dict[str, int | None] = {}

        async def ask(job: Job) -> None:
            found[job.metadata.name] = await self._exit_code(flow, job)
            self._gets_on(flow.key)

        errors = await at_once(jobs, ask)
        if errors:
            raise errors[0]
        return found

    async def _exit_code(self, flow: JobFlow, job: Job) -> int | None:
        """Return the exit code of the first pod of `job` that failed. None when no pod reports one."""
        selector = f"{keys.JOB_NAME}={job.metadata.name}"
        ended = f"status.phase={PodPhase.FAILED}"
        items, _ = await self._client.list(PODS, flow.metadata.namespace, label_selector=selector, field_selector=ended)
        pods = [reading.convert(item, Pod) for item in items]
        failed = [pod for pod in pods if members.owner_uid(pod) == job.metadata.uid and pod.status.phase is PodPhase.FAILED]
        failed.sort(key=lambda pod: (_finished_at(pod), pod.metadata.name))
        return next((code for pod in failed if (code := members.exit_code(pod))), None)

    async def _set_finalizers(self, flow: JobFlow, finalizers: tuple[str, ...]) -> None:
        meta = flow.metadata
        patch = {"metadata": {"uid": meta.uid, "resourceVersion": meta.resource_version, "finalizers": list(finalizers)}}
        try:
            answer = await self._client.patch(JOB_FLOWS, flow.key, patch, PatchKind.MERGE)
        except NotFound:
            self._caches.flows.gone(flow.key, meta.uid)
            if keys.FLOW_FINALIZER in finalizers:
                raise  # the finalizer cannot be added to a deleted flow, and nothing is created for such a flow
            return
        if meta.is_terminating and not finalizers:
            self._caches.flows.gone(flow.key, meta.uid)
        else:
            self._caches.flows.put(record_of(answer, JobFlow))

    async def _create(self, flow: JobFlow, memory: FlowMemory, effect: CreateJob, now: float) -> bool:
        """Create a Job. Return whether this call created it."""
        try:
            body = manifest(flow, effect)
        except PatchError as error:
            self._refuse(memory, effect.name, FlowReason.PATCH_INVALID, str(error), now)
            return False
        if self._are_traced:
            parent = context_of(flow.metadata.annotations)
            body["metadata"]["annotations"][ANNOTATION] = context_within(flow_identity(flow.metadata.uid), parent)
        try:
            answer = await self._creators.jobs.create(body)
        except AlreadyExists:
            await self._adopt(flow, memory, effect, now)
            return False
        except ApiError as error:
            if is_transient(error) and not is_broken(error):
                raise
            self._refuse(memory, effect.name, FlowReason.JOB_REFUSED, error.message, now)
            return False
        self._keep(memory, record_of(answer, Job))
        log.info("job.made", flow=str(flow.key), job=effect.name, retry=effect.retry)
        return True

    async def _adopt(self, flow: JobFlow, memory: FlowMemory, effect: CreateJob, now: float) -> None:
        """Handle a Job that already has the name. Keep it when this flow owns it; otherwise record the refusal.

        This flow owns the Job when an answer was lost or another replica was faster.
        """
        job = record_of(await self._client.get(JOBS, Key(flow.metadata.namespace, effect.name)), Job)
        if is_owned(flow, job):
            self._keep(memory, job)
            return
        message = f"there is a Job {effect.name} already that does not belong to this flow"
        self._refuse(memory, effect.name, FlowReason.JOB_NAME_TAKEN, message, now)

    async def _delete(self, flow: JobFlow, memory: FlowMemory, effect: DeleteJob) -> None:
        key = Key(flow.metadata.namespace, effect.name)
        ghost = memory.ghosts.get(effect.name)
        if ghost is not None and ghost.metadata.uid == effect.uid:
            del memory.ghosts[effect.name]
            return
        memory.deleted.add(effect.uid)
        try:
            answer = await self._client.delete(JOBS, key, uid=effect.uid, propagation="Background")
        except (NotFound, Conflict):
            log.debug("job.gone", job=str(key))
            answer = {}
        if answer.get("kind") == JOBS.kind and (answer.get("metadata") or {}).get("finalizers"):
            self._caches.jobs.put(record_of(answer, Job))
        else:
            self._caches.jobs.gone(key, effect.uid)
        log.info("job.deleted", flow=str(flow.key), job=effect.name)

    async def _cancel(self, flow: JobFlow, memory: FlowMemory, effect: CancelJob) -> None:
        """Create the Command that terminates a Job.

        The name of the Command contains the UID of the Job, so that at most one such Command exists at a time.
        """
        target = {"apiVersion": JOBS.api_version, "kind": JOBS.kind, "name": effect.name, "uid": effect.uid}
        action = Action.TERMINATE_JOB.value
        meta = {
            "name": f"cancel-{effect.uid}",
            "namespace": flow.metadata.namespace,
            "ownerReferences": [target],
            "annotations": {keys.AUTHORIZED_FOR: authorization(effect.uid, action)},
        }
        command = {
            "apiVersion": COMMANDS.api_version,
            "kind": COMMANDS.kind,
            "metadata": meta,
            "action": action,
            "target": target,
            "reason": FlowReason.FLOW_FAILED.value,
            "message": f"JobFlow {flow.metadata.name} has failed, and its failurePolicy is Cancel",
        }
        try:
            await self._creators.commands.create(command)
        except AlreadyExists:
            log.debug("job.already_cancelled", flow=str(flow.key), job=effect.name)
        memory.cancelled.add(effect.uid)
        log.info("job.cancelled", flow=str(flow.key), job=effect.name)

    def _keep(self, memory: FlowMemory, job: Job) -> None:
        memory.forget_job(job.metadata.name)
        self._caches.jobs.put(job)

    def _refuse(self, memory: FlowMemory, name: str, reason: FlowReason, message: str, now: float) -> None:
        """Record that a Job cannot be created, and when its creation is tried again."""
        times = memory.refusals.get(name, 0)
        memory.refusals[name] = times + 1
        memory.refused[name] = Refused(reason, message, now + _REFUSAL_PAUSES.after(times))
        log.info("job.refused", job=name, reason=reason.value, message=message, times=times + 1)


def _finished_at(pod: Pod) -> str:
    statuses = pod.status.container_statuses
    terminated = statuses[0].state.terminated if statuses else None
    return (terminated.finished_at if terminated is not None else None) or "9999"
