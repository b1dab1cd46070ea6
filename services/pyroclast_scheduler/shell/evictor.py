"""Evictions: a condition with the reason is written to the pod, and the pod is deleted."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from typing import Final

import structlog

from pyroclast.api.enums import DisruptionReason
from pyroclast.api.types import PODS, Key
from pyroclast.kube.basics.deadline import Deadline
from pyroclast.kube.basics.errors import Conflict, KubeError, NotFound, is_transient
from pyroclast.kube.events.correlator import Reference
from pyroclast.kube.events.recorder import EventRecorder
from pyroclast.kube.http.client import Client, PatchKind
from pyroclast.kube.workqueue.rejections import Refusals
from pyroclast.lifecycle.seats.contract import is_seat
from pyroclast.lifecycle.times import format_time
from pyroclast_scheduler.cache.assumptions import Assumption, AssumptionKind
from pyroclast_scheduler.cache.cache import Cache
from pyroclast_scheduler.model.tasks import TaskFacts
from pyroclast_scheduler.session.outcome import Commit, Eviction
from pyroclast_scheduler.shell.metrics import SchedulerMetrics
from pyroclast_scheduler.shell.patches import condition, disruption

log = structlog.get_logger()

WORKERS: Final = 8
_TRANSACTIONS: Final = frozenset({"preempt", "reclaim", "gangpreempt", "gangreclaim"})
_SECONDS: Final = 30.0


class Evictor:
    """Evicts the victims in commits; `run` must be running. `evicted`: called with each evicted pod of a group, and for whom."""

    def __init__(
        self,
        client: Client,
        cache: Cache,
        recorder: EventRecorder,
        metrics: SchedulerMetrics,
        *,
        evicted: Callable[[TaskFacts, str], None],
    ) -> None:
        self._client = client
        self._cache = cache
        self._recorder = recorder
        self._metrics = metrics
        self._queue: asyncio.Queue[tuple[Eviction, Assumption | None]] = asyncio.Queue()
        self._refusals: Refusals[Reference] = Refusals(recorder, lambda about: about)
        self._evicted = evicted

    def take(self, commit: Commit) -> None:
        """Assume the evictions, and send those of pods that are not being deleted already."""
        if commit.evictions and commit.evictions[0].reason in _TRANSACTIONS:
            self._metrics.evictions.labels(commit.evictions[0].reason).inc()
        for eviction in commit.evictions:
            uid = eviction.task.uid
            if not is_seat(uid) and self._cache.pods.releasing(uid):  # a seat has no pod to evict
                self._queue.put_nowait((eviction, self._cache.assumptions.hold(uid, AssumptionKind.GOING)))

    async def run(self) -> None:
        """Evict pods until cancelled."""
        async with asyncio.TaskGroup() as group:
            for _ in range(WORKERS):
                group.create_task(self._work())

    async def _work(self) -> None:
        while True:
            eviction, assumption = await self._queue.get()
            if self._cache.assumptions.stands(eviction.task.uid, assumption):
                await self._evict(eviction)
            else:
                log.info("pod.eviction_outdated", pod=eviction.task.key, reason=eviction.reason)

    async def _evict(self, eviction: Eviction) -> None:
        task = eviction.task
        key = Key(task.namespace, task.name)
        whom = self._for_whom(eviction)
        reason = eviction.reason + whom
        why = f"Pod is evicted, because of {reason}"
        about = Reference.of(task.pod, PODS)
        self._recorder.event(about, "Warning", "Evict", why)
        group = self._cache.groups.current(eviction.job)
        if group is not None:
            self._recorder.event(Reference.of(group, group.kind), "Normal", "Evict", reason)
            self._evicted(task, whom)
        deadline = Deadline.after(_SECONDS)
        try:
            now = format_time(time.time())
            text = f"preempting to accommodate a higher priority pod ({eviction.reason}){whom}"
            preempted = f"{task.pod.spec.scheduler_name}: {text}"
            conditions = [condition("Ready", "False", "Evict", why, now), disruption(DisruptionReason.PREEMPTION, preempted, now)]
            body = {"metadata": {"uid": task.uid}, "status": {"conditions": conditions}}
            await self._client.patch(PODS, key, body, PatchKind.STRATEGIC, subresource="status", deadline=deadline)
            await self._client.delete(PODS, key, uid=task.uid, deadline=deadline)
        except (NotFound, Conflict):
            log.debug("pod.gone", pod=task.key)
            self._cache.pods.keep(task.uid)
        except KubeError as error:
            log.warning("pod.not_evicted", pod=task.key, error=str(error))
            if is_transient(error):
                self._cache.pods.restore(task.uid)
            else:  # without a pause, sessions would choose the same victim at once
                pause = self._refusals.take(about, error)
                asyncio.get_running_loop().call_later(pause, self._cache.pods.restore, task.uid)
        else:
            self._refusals.forget(about)
            log.info("pod.evicted", pod=task.key, reason=eviction.reason, preemptors=list(eviction.preemptors))
            self._metrics.evicted_pods.labels(eviction.reason).inc()
            self._cache.pods.keep(task.uid)

    def _for_whom(self, eviction: Eviction) -> str:
        """Return ` for JOB in queue QUEUE` for each job that gets the room; empty for evictions without a preemptor."""
        facts = ((key, self._cache.jobs.facts(key)) for key in eviction.preemptors)
        named = [f"{key} in queue {job.queue}" if job is not None and job.queue else key for key, job in facts]
        return f" for {', '.join(named)}" if named else ""
