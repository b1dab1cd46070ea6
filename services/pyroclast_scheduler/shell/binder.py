"""Binds: what sessions decided is taken up by the cache at once and sent to the API server by a bounded number of workers."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

import msgspec
import structlog

from pyroclast.api import records
from pyroclast.api.types import PODS, Key
from pyroclast.kube.backoff import Backoff
from pyroclast.kube.client import Client
from pyroclast.kube.deadline import Deadline
from pyroclast.kube.errors import ApiError, ConnectionFailed, KubeError, NotFound
from pyroclast.kube.events import EventRecorder, Reference
from pyroclast_scheduler.cache.cache import Cache
from pyroclast_scheduler.framework.outcome import Commit
from pyroclast_scheduler.model.tasks import TaskFacts, seconds_of
from pyroclast_scheduler.shell.metrics import SchedulerMetrics

__all__ = ["Binder"]

log = structlog.get_logger()

WORKERS: Final = 32  # requests in flight; more make an API server slower, not faster
LONGEST_BACKLOG: Final = 5000  # pods; above it no new session starts until some are bound
_FIRST_RETRY: Final = 0.1  # seconds until a refused pod may be placed again …
_LONGEST_RETRY: Final = 5.0  # … doubling up to this, so that a gang is complete again within 10 s
_BIND_SECONDS: Final = 30.0


@dataclass(frozen=True, slots=True)
class _Bind:
    task: TaskFacts
    node: str
    is_told: bool  # an event says so: one per placement of a gang, since an event per pod would double the writes


class Binder:
    """Takes commits from sessions; `run` must be running. All of it belongs to the event loop's thread."""

    def __init__(
        self,
        client: Client,
        cache: Cache,
        recorder: EventRecorder,
        metrics: SchedulerMetrics,
    ) -> None:
        self._client = client
        self._cache = cache
        self._recorder = recorder
        self._metrics = metrics
        self._queue: asyncio.Queue[_Bind] = asyncio.Queue()
        self._retries: dict[str, int] = {}
        self._room = asyncio.Event()
        self._room.set()
        self.refused: Callable[[TaskFacts, str], None] = lambda _task, _why: None

    def take(self, commit: Commit) -> None:
        """Assume what `commit` decided and send it. Binds of one job that cannot all be assumed any more are all dropped."""
        now = time.time()
        for binds in commit.binds:
            tasks = [self._cache.tasks.get(uid) for uid, _ in binds.placed]
            problem = self._cache.assume_all(binds.placed)
            if problem is not None:
                log.info("job.placement_outdated", job=binds.job, reason=problem)
                continue
            for i, (task, (_, node)) in enumerate(zip(tasks, binds.placed, strict=True)):
                if task is not None:
                    self._queue.put_nowait(_Bind(task, node, is_told=i == 0))
                    self._metrics.task.labels("Assumed").observe(max(0.0, now - task.created) * 1000)
            self._placed(binds.job, len(binds.placed), now)
        if self._queue.qsize() >= LONGEST_BACKLOG:
            self._room.clear()

    async def room(self) -> None:
        """Wait until the backlog is short enough for another session."""
        await self._room.wait()

    async def run(self) -> None:
        """Send, until cancelled."""
        async with asyncio.TaskGroup() as group:
            for _ in range(WORKERS):
                group.create_task(self._work())

    async def _work(self) -> None:
        while True:
            bind = await self._queue.get()
            if self._queue.qsize() < LONGEST_BACKLOG:
                self._room.set()
            await self._bind(bind)

    async def _bind(self, bind: _Bind) -> None:
        task = bind.task
        start = time.perf_counter()
        try:
            await self._client.create(
                PODS,
                {
                    "apiVersion": "v1",
                    "kind": "Binding",
                    "metadata": {"namespace": task.namespace, "name": task.name, "uid": task.uid},
                    "target": {"apiVersion": "v1", "kind": "Node", "name": bind.node},
                },
                namespace=task.namespace,
                name=task.name,
                subresource="binding",
                deadline=Deadline.after(_BIND_SECONDS),
            )
        except (ApiError, ConnectionFailed) as error:
            await self._resolve(bind, error)
            return
        self._retries.pop(task.uid, None)
        self._metrics.stage.labels("Bind").observe((time.perf_counter() - start) * 1000)
        self._metrics.task.labels("Bound").observe(max(0.0, time.time() - task.created) * 1000)
        log.debug("pod.bound", pod=task.key, node=bind.node)
        if bind.is_told:
            message = f"Successfully assigned {task.key} to {bind.node}"
            self._recorder.event(Reference.of(task.pod, PODS), "Normal", "Scheduled", message)

    async def _resolve(self, bind: _Bind, error: KubeError) -> None:
        """Find out what became of a bind that was not answered with success."""
        task = bind.task
        pod = await self._read(task)
        if pod is not None and pod.metadata.uid == task.uid and pod.spec.node_name == bind.node:
            self._retries.pop(task.uid, None)  # it was bound after all: an answer was lost
            return
        reason = error.reason if isinstance(error, ApiError) else "NoAnswer"
        self._metrics.refusals.labels(reason or "Unknown").inc()
        log.warning("pod.bind_refused", pod=task.key, node=bind.node, error=str(error))
        if pod is not None and pod.metadata.uid == task.uid:
            self.refused(task, f"failed to bind to node {bind.node}: {error.message}")
            tries = self._retries.get(task.uid, 0)
            self._retries[task.uid] = tries + 1
            delay = min(_FIRST_RETRY * 2**tries, _LONGEST_RETRY)
            asyncio.get_running_loop().call_later(delay, self._cache.forget, task.uid)
        else:
            self._retries.pop(task.uid, None)
            self._cache.forget(task.uid)

    async def _read(self, task: TaskFacts) -> records.Pod | None:
        """The pod as the API server has it now; None if it is gone. Waits while no answer comes."""
        backoff = Backoff(0.2, 5.0)
        while True:
            try:
                body: dict[str, Any] = await self._client.get(PODS, Key(task.namespace, task.name))
                return msgspec.convert(body, records.Pod, strict=False)
            except NotFound:
                return None
            except KubeError as error:
                log.debug("pod.not_read", pod=task.key, error=str(error))
                await asyncio.sleep(backoff.next())

    def _placed(self, job: str, count: int, now: float) -> None:
        group = self._cache.group(job)
        if group is None:
            return
        created = seconds_of(group.metadata.creation_timestamp)
        labels = (group.metadata.name, group.spec.queue, group.metadata.namespace)
        milliseconds = max(0.0, now - created) * 1000
        for _ in range(count):
            self._metrics.job_latency.observe(milliseconds)
        self._metrics.job_duration.labels(*labels).set(milliseconds)
        self._metrics.job_last.labels(*labels).set(now)
        log.info("job.placed", job=job, pods=count)
