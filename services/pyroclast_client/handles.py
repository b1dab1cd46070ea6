"""The asynchronous handle of a Job: follows the Job, reads its results, and controls it."""

from __future__ import annotations

import asyncio
import contextlib
import time
import warnings
from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import aclosing
from dataclasses import replace
from typing import Any, Final, Generic, Literal, NoReturn, Self, TypeVar, cast

from pyroclast.api import keys
from pyroclast.api.types import COMMANDS, JOBS, POD_GROUPS, PODS, Key
from pyroclast.kube.basics.errors import Conflict
from pyroclast.kube.http.client import PatchKind
from pyroclast.resources import indexes
from pyroclast_client import errors
from pyroclast_client.collecting import Collector
from pyroclast_client.documents import PAYLOAD, gives_json
from pyroclast_client.events import JobEvent, job_events
from pyroclast_client.log_following import followed
from pyroclast_client.loops import end, first_of
from pyroclast_client.options import A_DAY
from pyroclast_client.podreading import LogLine, Pod, failure, log_of, pod_of, pods_of, text_of
from pyroclast_client.results import Outcome, Started
from pyroclast_client.sessions import Connection, Handle, Session
from pyroclast_client.states import Explanation, JobStatus, ProgressLine, explained, explanation_of, status_of
from pyroclast_client.stores import fetched
from pyroclast_client.submission import key_of
from pyroclast_client.translation import translating
from pyroclast_client.watching import SelectionWatch, Watcher

R = TypeVar("R")
Until = Literal["finished", "running", "placed"]

NEVER_SECONDS: Final = 10.0  # a Job may briefly be unable ever to start while nodes join
END_SECONDS: Final = 0.5
COMPLETED: Final = "Completed"


class AsyncJob(Handle, Generic[R]):
    """A Job in the cluster, identified by namespace, name and UID. The handle can be pickled and used in another process.

    When another Job has the same name but another UID, the methods raise `JobReplaced`.
    """

    def __init__(
        self,
        client: Connection,
        namespace: str,
        name: str,
        uid: str,
        *,
        key: bytes | None = None,
        collector: Collector | None = None,
    ) -> None:
        super().__init__(client, namespace, name, uid)
        self._key = key
        self._given = collector
        self._outcomes: list[Outcome] | None = None

    async def object(self) -> dict[str, Any]:
        """Return the Job as the API server stores it.

        Raises:
            NotFound: the Job was deleted.
            JobReplaced: another Job has its name.
        """
        with translating(f"Job {self.key}"):
            found = await (await self.client.session()).kube.get(JOBS, self.key)
        return self._same(found)

    async def status(self) -> JobStatus:
        """Return the phase, reason, message and pod counts."""
        return status_of(await self.object())

    async def wait(
        self,
        timeout: float | None = None,  # noqa: ASYNC109 - the name in the standard library, and of the synchronous handle
        until: Until = "finished",
        *,
        fail_if_never: bool = False,
        check: bool = True,
        progress: bool | ProgressLine = False,
    ) -> Self:
        """Wait until the Job ends, or until its pods run or are bound to nodes.

        After ten seconds, a warning is issued for a Job that can never start. An interrupt does not affect the Job.

        Args:
            timeout: the limit in seconds. None means no limit.
            until: the state to wait for. The end of the Job ends every wait.
            fail_if_never: raise `NeverFits` for a Job that can never start.
            check: raise for a Job that ended in another phase than Completed.
            progress: show the state of the Job in one line if standard error is a terminal, or in this line of a sweep.

        Raises:
            JobFailed: the Job did not complete.
            TimedOut: `timeout` is over.
        """
        line = progress if isinstance(progress, ProgressLine) else ProgressLine() if progress else None
        try:
            async with asyncio.timeout(timeout):
                job = await self._reached(until, line, fail_if_never=fail_if_never)
        except TimeoutError:
            what = f"Job {self.key} was not {until} within {timeout:g} s"
            raise errors.TimedOut(f"{what}; it goes on. `explain()` says why a Job waits, `cancel()` ends it") from None
        finally:
            if line is not None and line is not progress:
                line.end()
        status = status_of(job)
        if status.is_finished and self._outcomes is None and _goes_by_itself(job):
            await self._fetch(job)
        if check and status.is_finished and status.phase != COMPLETED:
            with translating(f"Job {self.key}"):
                raise await failure((await self.client.session()).kube, self.key, self.uid, status)
        return self

    async def events(self) -> AsyncGenerator[JobEvent]:
        """Yield the past and future phases, Events and pods until the Job ends."""
        session = await self.client.session()
        with translating(f"Job {self.key}"):
            async with aclosing(job_events(session.kube, self._watcher(session), self.key, self.uid)) as stream:
                async for event in stream:
                    yield event

    async def logs(
        self, *, index: int | None = None, task: str | None = None, tail: int | None = None, timestamps: bool = False
    ) -> str:
        """Return the output of the pods until now. With several pods, each line begins with `[TASK-INDEX]`."""
        await self.object()
        kube = (await self.client.session()).kube
        with translating(f"the log of Job {self.key}"):
            pods = [
                pod
                for pod in await pods_of(kube, self.namespace, self.name, self.uid)
                if pod.has_started and (task is None or pod.task == task) and (index is None or pod.index == index)
            ]
            read = [text_of(await log_of(kube, self.namespace, pod, timestamps=timestamps), tail) for pod in pods]
        if len(pods) == 1:
            return "\n".join(read[0])
        return "\n".join(str(LogLine(pod.task, pod.index, line)) for pod, lines in zip(pods, read, strict=True) for line in lines)

    async def follow_logs(
        self, *, index: int | None = None, task: str | None = None, timestamps: bool = False
    ) -> AsyncGenerator[LogLine]:
        """Yield the lines of all pods when they arrive, until the Job ends."""
        session = await self.client.session()

        def is_chosen(pod: Pod) -> bool:
            return (task is None or pod.task == task) and (index is None or pod.index == index)

        with translating(f"the log of Job {self.key}"):
            end = self._ended()
            stream = followed(session.kube, self.key, self.uid, end=end, is_chosen=is_chosen, timestamps=timestamps)
            async with aclosing(stream) as lines:
                async for line in lines:
                    yield line

    async def explain(self) -> Explanation:
        """Return why the Job waits. `str()` of the result is what `vcctl explain` prints."""
        job = await self.object()
        with translating(f"what Job {self.key} waits for"):
            return await explained((await self.client.session()).kube, job)

    async def result(self, timeout: float | None = None) -> R:  # noqa: ASYNC109 - as in `wait`
        """Wait until the Job ends. Return the function's value, for a gang that of its first pod.

        Raises:
            TaskError: the function raised, in any pod.
            JobFailed: a pod ended without a message, or the Job did not complete.
            ResultTooLarge: the result needs a store.
            ResultGone: the pod or its log no longer exists.
        """
        outcomes = await self.outcomes(timeout)
        wrong = [outcome.error for outcome in outcomes if outcome.error is not None]
        for error in sorted(wrong, key=lambda each: not isinstance(each, errors.TaskError)):
            raise error
        return cast("R", outcomes[0].value)

    async def results(self, timeout: float | None = None) -> list[R | errors.PyroclastError]:  # noqa: ASYNC109 - as in `wait`
        """Wait until the Job ends. Return the value of each pod by index, with an error object in place of each missing value."""
        outcomes = await self.outcomes(timeout)
        return [outcome.value if outcome.error is None else outcome.error for outcome in outcomes]

    async def outcomes(self, timeout: float | None = None) -> list[Outcome]:  # noqa: ASYNC109 - as in `wait`
        """Return the outcome of each index. The outcomes are read once and then cached.

        Raises:
            ResultGone: the Job no longer exists.
        """
        if self._outcomes is None:
            try:
                await self.wait(timeout, check=False)
            except errors.NotFound as error:
                advice = "call `result()` or `wait()` before it goes, or give a longer `ttl`"
                text = f"Job {self.key} was deleted, and its results with it; {advice}"
                raise errors.ResultGone(text) from error
        return await self._fetch(await self.object()) if self._outcomes is None else self._outcomes

    async def as_completed(self) -> AsyncGenerator[Outcome]:
        """Yield the outcome of each index as soon as it is known."""
        async with aclosing(self.progress()) as steps:
            async for step in steps:
                if isinstance(step, Outcome):
                    yield step

    async def progress(self) -> AsyncGenerator[Started | Outcome]:
        """Yield the start and the outcome of each index as soon as they are known.

        The outcomes of a Job that may start again as a whole are known when it ends.
        """
        job = await self.object()
        may_restart = any(policy.get("action") == "RestartJob" for policy in job["spec"].get("policies") or ())
        collector, told = await self._collector(job), set[int]()
        session, seen = await self.client.session(), asyncio.Queue[Pod | None]()
        watch = SelectionWatch(session.kube, PODS, self.namespace, {"labelSelector": f"{keys.JOB_NAME}={self.name}"})
        loop = asyncio.get_running_loop()
        tasks = [loop.create_task(watch.run(lambda item: _put(item, self.uid, seen))), loop.create_task(self._finish(seen))]
        try:
            with translating(f"the results of Job {self.key}"):
                while len(told) < _size(job):
                    pod = await seen.get()
                    if pod is None:
                        break
                    if not pod.is_finished:
                        yield Started(pod.index)
                    elif pod.index not in told and not may_restart:
                        told.add(pod.index)
                        yield await collector.one(pod)
            for outcome in await self.outcomes() if len(told) < _size(job) else ():
                if outcome.index not in told:
                    yield outcome
        finally:
            await end(tasks)

    async def cancel(self) -> None:
        """Terminate the Job for good. The pods are deleted, and the Job object stays."""
        await self._command("TerminateJob")

    async def cancel_calls(self, calls: Sequence[int]) -> None:
        """Cancel some calls of a sweep with `parallel`. Those that have ended keep their results.

        Raises:
            Usage: the sweep has no `parallel`, so that its calls cannot be cancelled one by one.
        """
        with translating(f"Job {self.key}"):
            while True:
                job = await self.object()
                array = job["spec"]["tasks"][0].get("array")
                if array is None:
                    raise errors.Usage(
                        f"cancel: Job {self.key} has no `parallel`, so only all calls can be cancelled; give it one"
                    )
                spans = indexes.union(indexes.read(array.get("cancelled") or ""), indexes.spans_of(sorted(calls)))
                patch = [
                    {"op": "replace", "path": "/metadata/resourceVersion", "value": job["metadata"]["resourceVersion"]},
                    {"op": "add", "path": "/spec/tasks/0/array/cancelled", "value": indexes.written(spans)},
                ]
                try:
                    await (await self.client.session()).kube.patch(JOBS, self.key, patch, PatchKind.JSON)
                except Conflict:  # the controller wrote the Job meanwhile
                    continue
                return

    async def suspend(self) -> None:
        """Delete the pods of the Job until `resume`."""
        await self._command("AbortJob")

    async def resume(self) -> None:
        """Resume a suspended Job with new pods."""
        await self._command("ResumeJob")

    async def scale(self, replicas: int, *, task: str | None = None) -> None:
        """Change the number of pods of a task. When the gang is the whole task, the size of the gang changes with it.

        Raises:
            Usage: the Job has several tasks and none is named, or no task has that name.
        """
        job = await self.object()
        tasks = job["spec"]["tasks"]
        names = [str(each.get("name")) for each in tasks]
        if len(tasks) > 1 if task is None else task not in names:
            raise errors.Usage(f"scale: Job {self.key} has the tasks {', '.join(names)}; name one by `task=`")
        place = 0 if task is None else names.index(task)
        path, before = f"/spec/tasks/{place}", tasks[place]
        had = int(before.get("replicas") or 0)
        needed = int(before.get("minAvailable", had))
        minimum = replicas if needed == had else min(needed, replicas)
        patch: list[dict[str, Any]] = [{"op": "test", "path": "/metadata/uid", "value": self.uid}]
        patch.append({"op": "replace", "path": f"{path}/replicas", "value": replicas})
        if minimum != needed:
            total = int(job["spec"].get("minAvailable") or 0) - needed + minimum
            patch.append({"op": "add", "path": f"{path}/minAvailable", "value": minimum})
            patch.append({"op": "add", "path": "/spec/minAvailable", "value": total})
        with translating(f"Job {self.key}"):
            await (await self.client.session()).kube.patch(JOBS, self.key, patch, PatchKind.JSON)

    async def delete(self) -> None:
        """Delete the Job, its pods and its Secret."""
        with translating(f"Job {self.key}"):
            await (await self.client.session()).kube.delete(JOBS, self.key, uid=self.uid, propagation="Background")

    # Helpers of the methods above

    async def _fetch(self, job: dict[str, Any]) -> list[Outcome]:
        collector = await self._collector(job)
        with translating(f"the results of Job {self.key}"):
            pods = await pods_of(collector.kube, self.namespace, self.name, self.uid)
            self._outcomes = await collector.all(pods, job, _size(job))
        return self._outcomes

    def _watcher(self, session: Session) -> Watcher:
        return session.watcher(JOBS, self.namespace)

    def _same(self, job: dict[str, Any]) -> dict[str, Any]:
        if job["metadata"]["uid"] != self.uid:
            raise errors.JobReplaced(
                f"Job {self.key} was deleted, and another one has its name now. `pc.job({self.name!r})` is a handle of that one"
            )
        return job

    async def _reached(self, until: Until, line: ProgressLine | None, *, fail_if_never: bool) -> dict[str, Any]:
        """Return the object as soon as it is in the requested state."""
        return await first_of(self._until(until, line), self._never(fail_if_never=fail_if_never))

    async def _until(self, until: Until, line: ProgressLine | None = None) -> dict[str, Any]:
        session = await self.client.session()
        if until == "placed":
            return await first_of(self._seen(session, "running"), self._placed(session))
        return await self._seen(session, until, line)

    async def _placed(self, session: Session) -> dict[str, Any]:
        name = f"{self.name}-{self.uid}"
        with translating(f"the PodGroup of Job {self.key}"):
            watcher = session.watcher(POD_GROUPS, self.namespace)
            await watcher.until(name, lambda group: group is not None and (group.get("status") or {}).get("phase") == "Running")
        return await self.object()

    async def _seen(self, session: Session, until: Until, line: ProgressLine | None = None) -> dict[str, Any]:
        was_there = False

        def holds(job: dict[str, Any] | None) -> bool:
            nonlocal was_there
            was_there = was_there or job is not None
            if line is not None:
                line.show(job)
            if job is None or job["metadata"]["uid"] != self.uid:
                return True
            status = status_of(job)
            return status.is_finished or (until == "running" and status.phase in {"Running", "Completing"})

        with translating(f"Job {self.key}"):
            found = await self._watcher(session).until(self.name, holds)
        if found is None and not was_there:
            raise errors.NotFound(f"Job {self.key} is not there any more: it was deleted. Submit it again")
        if found is None:
            raise errors.JobFailed(
                f"Job {self.key} was deleted while it was waited for. Submit it again", job=str(self.key), phase="Deleted"
            )
        return self._same(found)

    async def _never(self, *, fail_if_never: bool) -> NoReturn:
        """Warn or raise when the Job can never start. After a warning, wait until cancelled."""
        session, began = await self.client.session(), time.monotonic()

        def is_never(job: dict[str, Any] | None) -> bool:
            return job is not None and explanation_of(job).never

        with translating(f"Job {self.key}"):
            while True:
                await self._watcher(session).until(self.name, is_never)
                await asyncio.sleep(max(0.0, NEVER_SECONDS - (time.monotonic() - began)))
                job = await self.object()
                if is_never(job):
                    break
        explanation = explanation_of(job)
        if fail_if_never:
            raise errors.NeverFits(f"{explanation.summary}. `explain()` tells more, `cancel()` ends the Job", explanation)
        warnings.warn(explanation.summary, errors.PyroclastWarning, stacklevel=2)
        while True:
            await asyncio.Event().wait()

    async def _finish(self, ended: asyncio.Queue[Pod | None]) -> None:
        """Put None into the queue after the last pod, also when the Job was deleted."""
        try:
            await self._until("finished")
        finally:
            await asyncio.sleep(END_SECONDS)  # the watch of pods may be behind the watch of Jobs
            ended.put_nowait(None)

    async def _collector(self, job: dict[str, Any]) -> Collector:
        """Return the collector of the Job's results.

        Raises:
            Usage: the Job runs no function of this client.
        """
        kube = (await self.client.session()).kube
        if self._given is not None:
            return self._reading(replace(self._given, kube=kube, job=self.key), job)
        return self._reading(Collector.of(kube, job, await self.key_of_results(job)), job)

    async def key_of_results(self, job: Mapping[str, Any] | None = None) -> bytes:
        """Return the key with which the pods of the Job seal what they send.

        Raises:
            Usage: the Job runs no function of this client.
        """
        if self._key is not None:
            return self._key
        kube, job = (await self.client.session()).kube, job or await self.object()
        secret = (job["metadata"].get("annotations") or {}).get(PAYLOAD)
        if not secret:
            raise errors.Usage(
                f"Job {self.key} runs no function of this client, so it has no result; `logs()` has what it printed"
            )
        self._key = await key_of(kube, Key(self.namespace, secret))
        return self._key

    def _reading(self, collector: Collector, job: dict[str, Any]) -> Collector:
        """Return the collector with a `fetch` that reads a claim through a Job with the same image and queue."""
        store, client, spec = collector.store, self.client, job["spec"]
        is_json = gives_json(spec)
        return replace(collector, is_json=is_json, fetch=lambda name: fetched(client, self.namespace, store, name, spec))

    async def _ended(self) -> None:
        """Wait until the Job ends or is deleted. No more lines arrive after either."""
        with contextlib.suppress(errors.JobFailed, errors.JobReplaced, errors.NotFound):
            await self._until("finished")

    async def _command(self, action: str) -> None:
        target = {"apiVersion": JOBS.api_version, "kind": JOBS.kind, "name": self.name, "uid": self.uid}
        owner = {**target, "controller": True}
        metadata = {"generateName": f"{self.name}-", "namespace": self.namespace, "ownerReferences": [owner]}
        body = {
            "apiVersion": COMMANDS.api_version,
            "kind": COMMANDS.kind,
            "metadata": metadata,
            "action": action,
            "target": target,
        }
        await self.object()
        with translating(f"Job {self.key}"):
            await (await self.client.session()).kube.create(COMMANDS, body)


def _size(job: dict[str, Any]) -> int:
    return sum(
        indexes.number(indexes.lenient(task["array"]["indexes"])) if "array" in task else int(task.get("replicas") or 0)
        for task in job["spec"]["tasks"]
    )


def _goes_by_itself(job: dict[str, Any]) -> bool:
    """Whether the Job of a function is deleted soon after its end, so that its results must be read before."""
    is_ours, ttl = PAYLOAD in (job["metadata"].get("annotations") or {}), job["spec"].get("ttlSecondsAfterFinished")
    return is_ours and ttl is not None and ttl < A_DAY


def _put(item: Mapping[str, Any], uid: str, seen: asyncio.Queue[Pod | None]) -> None:
    """Put a pod of the Job into the queue if it runs, or has a termination message."""
    pod = pod_of(item, uid)
    if pod is not None and (pod.phase == "Running" or (pod.is_finished and pod.message)):
        seen.put_nowait(pod)
