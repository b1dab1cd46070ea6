"""The synchronous handle of a Job: the methods of the asynchronous one, without `await`."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from typing import Any, Generic, Literal, Self, TypeVar, overload

from pyroclast_client.errors import PyroclastError, Usage
from pyroclast_client.events import JobEvent
from pyroclast_client.handles import AsyncJob, Until
from pyroclast_client.loops import iterated, run
from pyroclast_client.notebook import job_html
from pyroclast_client.podreading import LogLine
from pyroclast_client.states import Explanation, JobStatus, status_of

__all__ = ["Job"]

R = TypeVar("R")


class Job(Generic[R]):
    """A Job in the cluster. It pickles, and comes back in another session.

    As a context manager it ends the Job at the end of the block, if it was submitted with `cancel_on_exit=True`.
    """

    def __init__(self, handle: AsyncJob[R], *, cancel_on_exit: bool = False) -> None:
        self.handle = handle
        self._cancel_on_exit = cancel_on_exit

    def __repr__(self) -> str:
        return f"<Job {self.namespace}/{self.name}>"

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
        """Its name."""
        return self.handle.name

    @property
    def namespace(self) -> str:
        """Its namespace."""
        return self.handle.namespace

    @property
    def uid(self) -> str:
        """What tells it from others of its name."""
        return self.handle.uid

    @property
    def status(self) -> JobStatus:
        """Phase, reason, message and counts of pods, as they are now."""
        return run(self.handle.status())

    @property
    def phase(self) -> str:
        """The phase now."""
        return self.status.phase

    @property
    def reason(self) -> str:
        """The one-word reason of the phase."""
        return self.status.reason

    def object(self) -> dict[str, Any]:
        """The object as the API server has it."""
        return run(self.handle.object())

    def wait(
        self,
        timeout: float | None = None,
        until: Until = "finished",
        *,
        fail_if_never: bool = False,
        check: bool = True,
        progress: bool = True,
    ) -> Self:
        """Wait for the end of the Job, or until its pods run or have their nodes; see `AsyncJob.wait`.

        An interrupt leaves the Job alone and says how to end it.
        """
        try:
            run(self.handle.wait(timeout, until, fail_if_never=fail_if_never, check=check, progress=progress))
        except KeyboardInterrupt:
            where = f"{self.namespace}/{self.name}"
            sys.stderr.write(f"\nJob {where} goes on. `pc.job({where!r}).cancel()` ends it, `.wait()` waits for it again.\n")
            raise
        return self

    def events(self) -> Iterator[JobEvent]:
        """Phases, Events and pods: those until now and those to come, until the Job ends."""
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
        """What the pods printed until now. The lines of several pods are each behind `[TASK-INDEX]`.

        With `follow`, the lines of all pods as they come, until the Job ends: `follow_logs`.

        Raises:
            Usage: `follow` with `tail`.
        """
        if follow and tail is not None:
            raise Usage(f"logs: Job {self.namespace}/{self.name}: `follow` begins with the first line; leave out `tail`")
        if follow:
            return self.follow_logs(index=index, task=task, timestamps=timestamps)
        return run(self.handle.logs(index=index, task=task, tail=tail, timestamps=timestamps))

    def follow_logs(self, *, index: int | None = None, task: str | None = None, timestamps: bool = False) -> Iterator[LogLine]:
        """The lines of all pods as they come, until the Job ends."""
        return iterated(self.handle.follow_logs(index=index, task=task, timestamps=timestamps))

    def result(self, timeout: float | None = None) -> R:
        """What the function returned, of a gang its first pod. Waits for the end of the Job; see `AsyncJob.result`."""
        return run(self.handle.result(timeout))

    def results(self, timeout: float | None = None) -> list[R | PyroclastError]:
        """What each pod returned, by index, with errors in place of values. Waits for the end of the Job."""
        return run(self.handle.results(timeout))

    def explain(self) -> Explanation:
        """Why the Job waits; `str()` of it is a sentence."""
        return run(self.handle.explain())

    def cancel(self) -> None:
        """End the Job for good: its pods go, it stays to be looked at."""
        run(self.handle.cancel())

    def suspend(self) -> None:
        """Take its pods away until `resume`."""
        run(self.handle.suspend())

    def resume(self) -> None:
        """Let a suspended Job go on, from the start of its pods."""
        run(self.handle.resume())

    def scale(self, replicas: int, *, task: str | None = None) -> None:
        """Change the number of pods of a task, and of its gang where that is all of its pods."""
        run(self.handle.scale(replicas, task=task))

    def delete(self) -> None:
        """Delete the Job and all that belongs to it."""
        run(self.handle.delete())
