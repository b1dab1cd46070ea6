"""The synchronous handle of a Job: the methods of `AsyncJob` without `await`."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from typing import Any, Generic, Literal, Self, TypeVar, overload

from pyroclast_client.errors import Usage
from pyroclast_client.events import JobEvent
from pyroclast_client.handles import AsyncJob, Until
from pyroclast_client.loops import Synchronous, awaited, iterated, run
from pyroclast_client.podreading import LogLine
from pyroclast_client.states import JobStatus, job_html, status_of

R = TypeVar("R")


class Job(Synchronous[AsyncJob[R]], Generic[R]):
    """A Job in the cluster. The handle can be pickled and used in another process.

    As a context manager, the handle terminates the Job at the end of the block if the Job was submitted with
    `cancel_on_exit=True`.
    """

    def __init__(self, handle: AsyncJob[R], *, cancel_on_exit: bool = False) -> None:
        super().__init__(handle)
        self._cancel_on_exit = cancel_on_exit

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self.handle,)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        if self._cancel_on_exit and not self.status.is_finished:
            self.cancel()

    def _repr_html_(self) -> str:
        job = self.object()
        status = status_of(job)
        return job_html("Job", f"{self.namespace}/{self.name}", status, self.explain() if status.phase == "Pending" else None)

    @property
    def name(self) -> str:
        """The name of the Job."""
        return self.handle.name

    @property
    def namespace(self) -> str:
        """The namespace of the Job."""
        return self.handle.namespace

    @property
    def uid(self) -> str:
        """The UID of the Job, which no other Job of the same name has."""
        return self.handle.uid

    @property
    def status(self) -> JobStatus:
        """The current phase, reason, message and pod counts."""
        return run(self.handle.status())

    @property
    def phase(self) -> str:
        """The current phase of the Job."""
        return self.status.phase

    @property
    def reason(self) -> str:
        """The one-word reason of the phase."""
        return self.status.reason

    def wait(
        self,
        timeout: float | None = None,
        until: Until = "finished",
        *,
        fail_if_never: bool = False,
        check: bool = True,
        progress: bool = True,
    ) -> Self:
        """Wait until the Job ends, or until its pods run or are bound to nodes. See `AsyncJob.wait`.

        An interrupt does not affect the Job. A message then says how to end the Job.
        """
        try:
            run(self.handle.wait(timeout, until, fail_if_never=fail_if_never, check=check, progress=progress))
        except KeyboardInterrupt:
            where = f"{self.namespace}/{self.name}"
            sys.stderr.write(f"\nJob {where} goes on. `pc.job({where!r}).cancel()` ends it, `.wait()` waits for it again.\n")
            raise
        return self

    def events(self) -> Iterator[JobEvent]:
        """Yield the past and future phases, Events and pods until the Job ends."""
        return iterated(self.handle.events())

    @overload
    def logs(
        self,
        *,
        follow: Literal[False] = False,
        index: int | None = ...,
        task: str | None = ...,
        tail: int | None = ...,
        timestamps: bool = ...,
    ) -> str: ...
    @overload
    def logs(
        self, *, follow: Literal[True], index: int | None = ..., task: str | None = ..., timestamps: bool = ...
    ) -> Iterator[LogLine]: ...
    def logs(
        self,
        *,
        follow: bool = False,
        index: int | None = None,
        task: str | None = None,
        tail: int | None = None,
        timestamps: bool = False,
    ) -> str | Iterator[LogLine]:
        """Return the output of the pods until now. With several pods, each line begins with `[TASK-INDEX]`.

        With `follow`, yield the lines of all pods when they arrive, until the Job ends, as `follow_logs` does.

        Raises:
            Usage: `follow` with `tail`.
        """
        if follow and tail is not None:
            raise Usage(f"logs: Job {self.namespace}/{self.name}: `follow` begins with the first line; leave out `tail`")
        if follow:
            return self.follow_logs(index=index, task=task, timestamps=timestamps)
        return run(self.handle.logs(index=index, task=task, tail=tail, timestamps=timestamps))

    def follow_logs(self, *, index: int | None = None, task: str | None = None, timestamps: bool = False) -> Iterator[LogLine]:
        """Yield the lines of all pods when they arrive, until the Job ends."""
        return iterated(self.handle.follow_logs(index=index, task=task, timestamps=timestamps))

    object = awaited(AsyncJob.object)
    result = awaited(AsyncJob.result)
    results = awaited(AsyncJob.results)
    explain = awaited(AsyncJob.explain)
    cancel = awaited(AsyncJob.cancel)
    suspend = awaited(AsyncJob.suspend)
    resume = awaited(AsyncJob.resume)
    scale = awaited(AsyncJob.scale)
    delete = awaited(AsyncJob.delete)
