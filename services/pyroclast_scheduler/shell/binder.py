"""Binds: the cache assumes the decisions of sessions at once, and a bounded number of workers sends them to the API server."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import structlog

from pyroclast.api import records
from pyroclast.api.keys import GROUP_NAME, SCHEDULING_QUEUE_NAME
from pyroclast.api.types import PODS, Key
from pyroclast.kube.basics.deadline import Deadline, loop_time
from pyroclast.kube.basics.errors import ApiError, ConnectionFailed, KubeError, NotFound
from pyroclast.kube.basics.retry import jittered_backoff
from pyroclast.kube.basics.time_slices import Turn
from pyroclast.kube.events.correlator import Reference
from pyroclast.kube.events.recorder import EventRecorder
from pyroclast.kube.http.client import Client, PatchKind
from pyroclast.kube.http.response_records import readable
from pyroclast.lifecycle.seats.contract import is_seat
from pyroclast_scheduler.cache.assumptions import Assumption, AssumptionKind
from pyroclast_scheduler.cache.cache import Cache
from pyroclast_scheduler.model.tasks import ALLOCATED, TaskFacts
from pyroclast_scheduler.session.outcome import Await, Commit, Preparation, Write
from pyroclast_scheduler.shell.bind_pauses import BindPauses
from pyroclast_scheduler.shell.metrics import SchedulerMetrics
from pyroclast_scheduler.shell.nodelocks import LockHeld, NodeLocks
from pyroclast_scheduler.shell.object_metrics import JobSeries

log = structlog.get_logger()

WORKERS: Final = 32  # requests in flight; more requests slow the API server down
LONGEST_BACKLOG: Final = 5000  # pods; above it no new session starts until some are bound
_BIND_SECONDS: Final = 30.0
_LONGEST_LABEL: Final = 63  # characters of a label's value
_SILENT_SECONDS: Final = 20.0  # after which a waiting bind is reported on the pod
_LOOK_SECONDS: Final = 20.0  # how often a waiting bind checks its conditions without a watch event


@dataclass(frozen=True, slots=True)
class _Bind:
    task: TaskFacts
    node: str
    is_told: bool  # whether an Event is recorded: one per placement of a gang, since one per pod would double the writes
    preparations: tuple[Preparation, ...] = ()
    session: float = 0.0
    assumption: Assumption | None = None  # the bind is not sent once its assumption has ended

    @property
    def writes(self) -> list[Write]:
        return [write for each in self.preparations for write in each.writes]

    @property
    def awaits(self) -> list[Await]:
        return [wait for each in self.preparations for wait in each.awaits]

    @property
    def lock(self) -> str:
        return next((each.node_lock for each in self.preparations if each.node_lock), "")


def _group_label(task: TaskFacts) -> dict[str, str]:
    """Return the label by which users find the one Event of a placement from every pod of the group."""
    group = task.pod.metadata.annotations.get(GROUP_NAME, "")
    return {GROUP_NAME: group} if 0 < len(group) <= _LONGEST_LABEL else {}


class _BindAbandoned(Exception):
    """A condition that a bind waits for cannot become true."""


class Binder:
    """Receives commits of sessions and sends their binds; `run` must be running. Only the thread of the event loop may use it.

    `refused`: called with each pod whose bind failed, and the reason. `lock`: returns the job for which a node is reserved (empty
    for none) and the time of the lock. A bind is dropped if its session started before the lock and its job is another one.
    """

    def __init__(
        self,
        client: Client,
        cache: Cache,
        recorder: EventRecorder,
        metrics: SchedulerMetrics,
        *,
        refused: Callable[[TaskFacts, str], None],
        lock: Callable[[str], tuple[str, float]],
    ) -> None:
        self._client = client
        self._cache = cache
        self._recorder = recorder
        self._metrics = metrics
        self._assumed, self._bound = (metrics.task.labels(stage) for stage in ("Assumed", "Bound"))
        self._binding = metrics.stage.labels("Bind")
        self.series = JobSeries(metrics)
        self._locks = NodeLocks(client, client.now)
        self._queue: asyncio.Queue[_Bind] = asyncio.Queue()
        self._pauses = BindPauses()
        self._writing = asyncio.Semaphore(WORKERS)
        self._moved = asyncio.Event()
        cache.objects.on_change(self._wake)
        self._room = asyncio.Event()
        self._room.set()
        self._tell_refused = refused
        self._lock = lock

    async def take(self, commit: Commit, turn: Turn, *, session: float) -> None:
        """Assume and send the binds of `commit`, of each job all or none. `session`: when the deciding session started."""
        now = time.time()
        for binds in commit.binds:
            tasks = [self._cache.tasks.get(uid) for uid, _ in binds.placed]
            problem = await self._assume(binds.placed, turn)
            if problem is not None:
                log.info("job.placement_outdated", job=binds.job, reason=problem)
                continue
            self._cache.seats.claim(binds.job, [pair for pair in binds.placed if is_seat(pair[0])])
            for i, (task, (_, node)) in enumerate(zip(tasks, binds.placed, strict=True)):
                if turn.is_over:
                    await turn.next()
                if task is not None and not is_seat(task.uid):
                    preparations = binds.preparations.get(task.uid, ())
                    assumption = self._cache.assumptions.hold(task.uid, AssumptionKind.BOUND)
                    bind = _Bind(task, node, i == 0, preparations, session, assumption)
                    for write in bind.writes:
                        if write.record is not None:
                            self._cache.objects.promise(write.record, str(write.key), write.patch)
                    self._queue.put_nowait(bind)
                    self._assumed.observe(max(0.0, now - task.created) * 1000)
            await self._placed(binds.job, len(binds.placed), now, turn)
        if self._queue.qsize() >= LONGEST_BACKLOG:
            self._room.clear()

    async def _assume(self, placed: Sequence[tuple[str, str]], turn: Turn) -> str | None:
        """Assume all binds (pod UID, node), or none, and return the reason. The event loop can run other tasks meanwhile."""
        for problem in self._cache.pods.assuming(placed):
            if problem is not None:
                return problem
            if turn.is_over:
                await turn.next()
        return None

    async def room(self) -> None:
        """Wait until the backlog is short enough for another session."""
        await self._room.wait()

    async def run(self) -> None:
        """Send binds until cancelled."""
        async with asyncio.TaskGroup() as group:
            for _ in range(WORKERS):
                group.create_task(self._work(group))

    def _wake(self) -> None:
        self._moved.set()
        self._moved = asyncio.Event()

    async def _work(self, group: asyncio.TaskGroup) -> None:
        while True:
            bind = await self._queue.get()
            if self._queue.qsize() < LONGEST_BACKLOG:
                self._room.set()
            if not self._is_current(bind):
                self._conclude(bind.writes)
                continue
            holder, since = self._lock(bind.node)
            if holder and holder != bind.task.job and bind.session <= since:  # later sessions have seen the lock
                log.info("pod.bind_vetoed", pod=bind.task.key, node=bind.node, reserved_for=holder)
                self._conclude(bind.writes)
                self._cache.pods.take_back([bind.task.uid])
                continue
            if bind.writes or bind.awaits or bind.lock:
                group.create_task(self._bind_prepared(bind))  # may wait for other programs, and must not delay plain binds
            else:
                await self._bind(bind)

    async def _bind_prepared(self, bind: _Bind) -> None:
        """Do the preparations, wait for their conditions, then bind; undo the preparations if one of these steps fails."""
        done: list[Write] = []
        held = ""
        is_bound = False
        start = time.perf_counter()
        try:
            if bind.lock:
                held = await self._locks.take(bind.node, bind.lock, lambda: self._is_current(bind))
            async with self._writing:
                self._require_current(bind)
                for write in bind.writes:
                    await self._patch(write, write.patch)
                    done.append(write)
            await self._wait(bind)
            self._metrics.stage.labels("PreBind").observe((time.perf_counter() - start) * 1000)
            self._metrics.task.labels("PreBound").observe(max(0.0, time.time() - bind.task.created) * 1000)
        except (_BindAbandoned, LockHeld) as error:
            log.warning("pod.not_prepared", pod=bind.task.key, node=bind.node, reason=str(error))
            self._metrics.refusals.labels("NotPrepared").inc()
            self._refused(bind, f"execute preBind for pod {bind.task.key} failed: {error}")
            await self._undo(bind.task, done)
        except (ApiError, ConnectionFailed) as error:
            is_bound = await self._resolve(bind, error)
            if not is_bound:
                await self._undo(bind.task, done)
        else:
            is_bound = await self._bind(bind)
            if not is_bound:
                await self._undo(bind.task, done)
        finally:
            self._conclude(bind.writes[len(done) :])
        if held and not is_bound:
            await self._locks.release(bind.node, bind.lock, held)

    def _is_current(self, bind: _Bind) -> bool:
        """Whether the assumption of a bind still exists; otherwise another pod may use the room."""
        if self._cache.assumptions.stands(bind.task.uid, bind.assumption):
            return True
        log.info("pod.bind_outdated", pod=bind.task.key, node=bind.node)
        return False

    def _require_current(self, bind: _Bind) -> None:
        if not self._is_current(bind):
            raise _BindAbandoned("the pod is gone, or placed anew")

    async def _wait(self, bind: _Bind) -> None:
        """Wait until all conditions of the bind are true. _BindAbandoned: one cannot become true, or takes too long."""
        for wait in bind.awaits:
            deadline, is_reported = Deadline.after(wait.patience), False
            while True:
                moved = self._moved
                self._require_current(bind)
                found = wait.judge(self._cache.objects.get(wait.record, wait.key))
                if isinstance(found, str):
                    raise _BindAbandoned(found)
                if found:
                    break
                left = deadline.left()
                if not left:
                    raise _BindAbandoned(f"{wait.key} was not ready within {wait.patience:g} s")
                if not is_reported and left <= wait.patience - _SILENT_SECONDS:
                    is_reported = True
                    self._tell_refused(bind.task, f"it has node {bind.node}, and waits for {wait.record.__name__} {wait.key}")
                with contextlib.suppress(TimeoutError):
                    async with asyncio.timeout(min(left, _LOOK_SECONDS)):
                        await moved.wait()

    def _conclude(self, writes: Sequence[Write]) -> None:
        """Handle that writes were confirmed or are not sent: sessions see the objects again as the API server shows them."""
        for write in writes:
            if write.record is not None:
                self._cache.object_released(write.record, str(write.key), write.patch)

    def _queue_annotation(self, task: TaskFacts) -> dict[str, str]:
        """Return the annotation with the queue of a pod whose group's API has no queues, for programs that count usage."""
        group, facts = self._cache.groups.current(task.job), self._cache.jobs.facts(task.job)
        if group is None or group.keeps_phase or facts is None or not facts.queue:
            return {}
        is_said = task.pod.metadata.annotations.get(SCHEDULING_QUEUE_NAME) == facts.queue
        return {} if is_said else {SCHEDULING_QUEUE_NAME: facts.queue}

    async def _bind(self, bind: _Bind) -> bool:
        """Send one bind, and return whether the pod is bound. The API server would accept a bind to a missing node."""
        task = bind.task
        if not self._is_current(bind):
            return False
        if not self._cache.nodes.is_known(bind.node):
            log.info("pod.bind_outdated", pod=task.key, node=bind.node)
            self._cache.pods.take_back([task.uid])
            return False
        start = time.perf_counter()
        metadata: dict[str, Any] = {"namespace": task.namespace, "name": task.name, "uid": task.uid}
        annotations = {key: value for each in bind.preparations for key, value in each.annotations.items()}
        annotations |= self._queue_annotation(task)
        if annotations:
            metadata["annotations"] = annotations
        try:
            await self._client.create(
                PODS,
                {
                    "apiVersion": "v1",
                    "kind": "Binding",
                    "metadata": metadata,
                    "target": {"apiVersion": "v1", "kind": "Node", "name": bind.node},
                },
                namespace=task.namespace,
                name=task.name,
                subresource="binding",
                deadline=Deadline.after(_BIND_SECONDS),
            )
        except (ApiError, ConnectionFailed) as error:
            return await self._resolve(bind, error)
        self._done(task)
        self._binding.observe((time.perf_counter() - start) * 1000)
        self._bound.observe(max(0.0, time.time() - task.created) * 1000)
        log.debug("pod.bound", pod=task.key, node=bind.node)
        if bind.is_told:
            message = f"Successfully assigned {task.key} to {bind.node}"
            self._recorder.event(Reference.of(task.pod, PODS), "Normal", "Scheduled", message, labels=_group_label(task))
        return True

    def _done(self, task: TaskFacts) -> None:
        """Handle that the pod is bound: a watch event must show it before the deadline."""
        self._pauses.bound(task.job, task.name)
        self._cache.pods.keep(task.uid)

    async def _patch(self, write: Write, patch: Mapping[str, Any]) -> None:
        """Send a patch and pass the response to the cache, so that no session decides on an older state."""
        deadline = Deadline.after(_BIND_SECONDS)
        body = await self._client.patch(
            write.kind, write.key, dict(patch), PatchKind.MERGE, subresource=write.subresource, deadline=deadline
        )
        if write.record is not None:
            if (found := readable(body, write.record)) is not None:
                self._cache.object_changed(None, found)
            self._cache.object_released(write.record, str(write.key), patch)

    async def _undo(self, task: TaskFacts, done: Sequence[Write]) -> None:
        """Undo the writes for a pod that could not be bound, last first."""
        for write in reversed(done):
            peers = (each for each in self._cache.groups.tasks_of(task.job) if each.part == task.part)
            if write.undo is None or (write.is_shared and any(each.status in ALLOCATED for each in peers)):
                continue
            try:
                await self._patch(write, write.undo)
            except KubeError as error:  # the next placement of the pod overwrites it
                log.warning("preparation.not_undone", kind=write.kind.kind, key=str(write.key), error=str(error))

    async def _resolve(self, bind: _Bind, error: KubeError) -> bool:
        """Find out the result of a bind without a successful response. Return whether the pod is bound."""
        task = bind.task
        pod = await self._read(task)
        if pod is not None and pod.metadata.uid == task.uid and pod.spec.node_name == bind.node:
            self._done(task)  # bound, but the response was lost
            return True
        reason = error.reason if isinstance(error, ApiError) else "NoAnswer"
        self._metrics.refusals.labels(reason or "Unknown").inc()
        self._metrics.attempts.labels("error").inc()
        log.warning("pod.bind_refused", pod=task.key, node=bind.node, error=str(error))
        if pod is not None and pod.metadata.uid == task.uid and pod.spec.node_name:
            self._pauses.bound(task.job, task.name)
            self._cache.pods.read(task.uid, pod)  # another program bound the pod first
        elif pod is not None and pod.metadata.uid == task.uid:
            self._refused(bind, f"failed to bind to node {bind.node}: {error.message}")
        else:
            self._cache.pods.forget(task.uid)
        return False

    def _refused(self, bind: _Bind, why: str) -> None:
        """Report that a pod could not be bound, and let sessions place it again after a pause."""
        task = bind.task
        if not self._is_current(bind):
            return
        self._tell_refused(task, why)
        delay = self._pauses.refuse(task.job, self._uid(task.job), task.name, loop_time())
        self._cache.pods.forget(task.uid, is_refused=True)
        asyncio.get_running_loop().call_later(delay, self._cache.pods.release, task.uid)

    def pause(self, job: str) -> None:
        """Keep sessions from placing an incomplete gang for some time if its binds were refused, before its pods are deleted."""
        delay = self._pauses.release(job, self._uid(job), loop_time())
        if delay:
            log.warning("job.paused", job=job, seconds=round(delay))
            self._cache.pods.pause(job)
            asyncio.get_running_loop().call_later(delay, self._resume, job)

    def _resume(self, job: str) -> None:
        left = self._pauses.left(job, loop_time())
        if left:  # it was paused again
            asyncio.get_running_loop().call_later(left, self._resume, job)
        else:
            self._cache.pods.resume(job)

    def _uid(self, job: str) -> str:
        group = self._cache.groups.current(job)
        return "" if group is None else group.metadata.uid

    async def _read(self, task: TaskFacts) -> records.Pod | None:
        """Return the present pod from the API server, with retries; None if it does not exist or is unreadable."""
        backoff = jittered_backoff(0.2, 5.0)
        while True:
            try:
                body: dict[str, Any] = await self._client.get(PODS, Key(task.namespace, task.name))
                return readable(body, records.Pod)
            except NotFound:
                return None
            except KubeError as error:
                log.debug("pod.not_read", pod=task.key, error=str(error))
                await asyncio.sleep(backoff.next())

    async def _placed(self, job: str, count: int, now: float, turn: Turn) -> None:
        group = self._cache.groups.current(job)
        if group is None:
            return
        took = self.series.placed(group, now)
        for _ in range(count):
            self._metrics.job_latency.observe(took)
            if turn.is_over:
                await turn.next()
        self._metrics.attempts.labels("scheduled").inc(count)
        log.info("job.placed", job=job, pods=count)
