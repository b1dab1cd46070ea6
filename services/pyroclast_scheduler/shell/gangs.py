"""Releases incomplete gangs: pods that were bound but never ran are deleted after some time, so that other jobs get the room."""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Iterable
from typing import Final

import structlog

from pyroclast.api.enums import DisruptionReason
from pyroclast.api.types import NODES, PODS, Key
from pyroclast.kube.basics.errors import Conflict, KubeError, NotFound, is_transient
from pyroclast.kube.events.correlator import Reference
from pyroclast.kube.events.recorder import EventRecorder
from pyroclast.kube.http.client import Client, PatchKind
from pyroclast.kube.workqueue.rejections import Refusals
from pyroclast.lifecycle.times import format_time
from pyroclast_scheduler.cache.cache import Cache
from pyroclast_scheduler.model.tasks import TaskFacts, TaskStatus
from pyroclast_scheduler.shell.patches import disruption

log = structlog.get_logger()

PATIENCE_SECONDS: Final = 5.0  # a gang is complete or released within 10 s of a crash, including the time for lists and leases


def to_release(tasks: Iterable[TaskFacts]) -> list[TaskFacts]:
    """Return the pods of an incomplete gang that have a node, never ran, and are created again by a controller after deletion."""
    return [
        task
        for task in tasks
        if task.status is TaskStatus.BOUND and not _may_have_run(task) and task.pod.metadata.controller is not None
    ]


def _may_have_run(task: TaskFacts) -> bool:
    """Whether a pod may have run, so that its deletion loses work: not while the kubelet reports all containers as waiting."""
    if not task.has_started:
        return False
    containers = (*task.pod.status.init_container_statuses, *task.pod.status.container_statuses)
    return not containers or any(
        each.state.waiting is None or each.last_state.terminated is not None or each.restart_count for each in containers
    )


class GangKeeper:
    """Measures for how long gangs are incomplete. `releasing`: called with a gang before its pods are deleted."""

    def __init__(
        self, client: Client, cache: Cache, recorder: EventRecorder, *, releasing: Callable[[str], None] = lambda _job: None
    ) -> None:
        self._client = client
        self._cache = cache
        self._recorder = recorder
        self._since: dict[str, float] = {}
        self._refusals: Refusals[Reference] = Refusals(recorder, lambda about: about)
        self._releasing = releasing

    def take(self, incomplete: Collection[str], now: float) -> list[str]:
        """Return the gangs that have been incomplete for too long. `now`: seconds since the epoch."""
        self._since = {job: self._since.get(job, now) for job in incomplete}
        late = [job for job, since in self._since.items() if now - since >= PATIENCE_SECONDS]
        for job in late:
            del self._since[job]
        return late

    async def release(self, job: str) -> None:
        """Delete the pods of `job` that never ran; if some are bound to missing nodes, delete only these.

        A condition tells the controller first that this is not an eviction, so that no policy of the Job reacts.
        """
        tasks = to_release(self._cache.groups.tasks_of(job))
        group = self._cache.groups.current(job)
        about = Reference.of(group, group.kind) if group is not None else None
        if not tasks or about is None or self._refusals.left(about):
            return
        stranded = [task for task in tasks if not task.has_started and not self._cache.nodes.is_known(task.node)]
        if stranded:
            gone = {node for node in {task.node for task in stranded} if await self._is_gone(node)}
            tasks = [task for task in stranded if task.node in gone]
            why = "are bound to nodes that are gone: they are made anew"
        else:
            why = "never started and the rest does not fit: their places are given back"
            self._releasing(job)
        if not tasks:
            return
        message = f"{len(tasks)} pods of the gang {why}"
        self._recorder.event(about, "Warning", "GangReleased", message)
        log.warning("gang.released", job=job, pods=len(tasks), are_stranded=bool(stranded))
        grace = 0 if stranded else None  # no kubelet exists to confirm the deletion
        condition = disruption(DisruptionReason.GANG_RELEASED, message, format_time(time.time()))
        for task in tasks:
            key = Key(task.namespace, task.name)
            body = {"metadata": {"uid": task.uid}, "status": {"conditions": [condition]}}
            try:
                await self._client.patch(PODS, key, body, PatchKind.STRATEGIC, subresource="status")
                await self._client.delete(PODS, key, uid=task.uid, grace_seconds=grace)
            except (NotFound, Conflict):
                log.debug("pod.gone", pod=task.key)
            except KubeError as error:  # the gang stays incomplete and is handled again
                log.warning("pod.not_released", pod=task.key, error=str(error))
                if not is_transient(error):
                    self._refusals.take(about, error)
                    return
        self._refusals.forget(about)

    async def _is_gone(self, node: str) -> bool:
        """Whether the API server has no Node of that name. The cache may lack a Node that exists."""
        try:
            found, _ = await self._client.list(NODES, field_selector=f"metadata.name={node}")
        except KubeError as error:  # the gang stays incomplete and is handled again
            log.warning("node.not_read", node=node, error=str(error))
            return False
        return not found
