"""The handle of a sweep: many calls of one function, whose failures do not affect each other."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncGenerator, Iterator, Sequence
from contextlib import aclosing
from dataclasses import replace
from typing import Final, Generic, Protocol, Self, TypeVar

from pyroclast_client import errors
from pyroclast_client.documents import fresh_name
from pyroclast_client.handles import AsyncJob
from pyroclast_client.jobs import Job
from pyroclast_client.loops import Synchronous, awaited, end, iterated, run
from pyroclast_client.options import SweepCall
from pyroclast_client.results import Outcome
from pyroclast_client.states import ProgressLine, sweep_html

R = TypeVar("R")

MOST_PODS: Final = 1000


class Submitter(Protocol):
    """The interface of a client that sweeps use."""

    async def submit_part(self, call: SweepCall[R], indices: Sequence[int], name: str, *, dry_run: bool = False) -> AsyncJob[R]:
        """Submit the calls of these indices as one Job."""
        ...


class AsyncSweep(Generic[R]):
    """Calls that were submitted together, as one Job for each thousand calls."""

    def __init__(self, client: Submitter, call: SweepCall[R]) -> None:
        self.client = client
        self.call = call
        self.parts: list[tuple[AsyncJob[R], tuple[int, ...]]] = []
        self._outcomes: dict[int, Outcome] = {}

    def __repr__(self) -> str:
        names = ", ".join(job.name for job, _ in self.parts)
        return f"<{type(self).__name__} of {len(self)}: {names}>"

    def __len__(self) -> int:
        return len(self.call.arguments)

    async def start(self, indices: Sequence[int], name: str, *, dry_run: bool = False) -> None:
        """Submit the calls of these indices. When a part is refused, the parts before it are deleted again."""
        chunks = [indices[start : start + MOST_PODS] for start in range(0, len(indices), MOST_PODS)]
        made: list[tuple[AsyncJob[R], tuple[int, ...]]] = []
        try:
            for number, chunk in enumerate(chunks):
                part = name if len(chunks) == 1 else f"{name}-{number}"
                made.append((await self.client.submit_part(self.call, chunk, part, dry_run=dry_run), tuple(chunk)))
        except (errors.Rejected, errors.Forbidden):
            for job, _ in made if not dry_run else ():
                with contextlib.suppress(errors.PyroclastError):  # the refusal matters more
                    await job.delete()
            raise
        self.parts += made

    async def wait(self, timeout: float | None = None, *, progress: bool = False) -> Self:  # noqa: ASYNC109 - the name in the standard library
        """Wait until all calls have ended. Failures are not raised. With `progress`, a terminal shows how many have ended."""
        line = ProgressLine(calls=len(self)) if progress else None
        try:
            async with asyncio.timeout(timeout):
                await asyncio.gather(*(job.wait(check=False, progress=line or False) for job, _ in self.parts))
        except TimeoutError:
            raise errors.TimedOut(f"{self!r} had not ended within {timeout:g} s; it goes on. `cancel()` ends it") from None
        finally:
            if line is not None:
                line.end()
        return self

    async def as_completed(self) -> AsyncGenerator[Outcome]:
        """Yield the outcome of each call as soon as it is known. Each outcome has the index of the arguments of its call."""
        told: asyncio.Queue[Outcome | BaseException | None] = asyncio.Queue()
        loop = asyncio.get_running_loop()
        tasks = [loop.create_task(self._read(job, indices, told)) for job, indices in self.parts]
        try:
            left = len(tasks)
            while left:
                found = await told.get()
                if isinstance(found, BaseException):
                    raise found
                if found is None:
                    left -= 1
                else:
                    yield found
        finally:
            await end(tasks)

    async def results(self, timeout: float | None = None) -> list[R | errors.PyroclastError]:  # noqa: ASYNC109 - see above
        """Return the value of each call in the order of the arguments, with an error object in place of each missing value."""
        outcomes = await self.outcomes(timeout)
        return [outcome.value if outcome.error is None else outcome.error for outcome in outcomes]

    async def outcomes(self, timeout: float | None = None) -> list[Outcome]:  # noqa: ASYNC109 - see above
        """Wait until all calls have ended. Return the outcome of each call."""
        await self.wait(timeout, progress=True)
        for job, indices in self.parts:
            for outcome in await job.outcomes():
                index = indices[outcome.index]
                self._outcomes[index] = replace(outcome, index=index)
        return [self._outcomes[index] for index in sorted(self._outcomes)]

    async def failed(self) -> list[int]:
        """Wait until all calls have ended. Return the indices of the failed calls."""
        return [outcome.index for outcome in await self.outcomes() if outcome.error is not None]

    async def retry(self) -> Self:
        """Submit the failed calls again. Their new outcomes replace the old ones."""
        if failed := await self.failed():
            await self.start(failed, fresh_name(self.call.name))
        return self

    async def cancel(self, *indices: int) -> None:
        """Terminate the calls that have not ended: all, or those of a sweep with `parallel` that `indices` name."""
        for job, part in self.parts:
            chosen = [part.index(index) for index in indices if index in part]
            if (chosen or not indices) and not (await job.status()).is_finished:
                await (job.cancel_calls(chosen) if indices else job.cancel())

    async def _read(self, job: AsyncJob[R], indices: Sequence[int], told: asyncio.Queue[Outcome | BaseException | None]) -> None:
        try:
            async with aclosing(job.as_completed()) as outcomes:
                async for outcome in outcomes:
                    told.put_nowait(replace(outcome, index=indices[outcome.index]))
        except Exception as error:  # noqa: BLE001 - the reader raises it; without it, the stream would never end
            told.put_nowait(error)
        told.put_nowait(None)


class Sweep(Synchronous[AsyncSweep[R]], Generic[R]):
    """The handle of a sweep: the methods of `AsyncSweep` without `await`."""

    def __len__(self) -> int:
        return len(self.handle)

    def _repr_html_(self) -> str:
        return sweep_html(", ".join(job.name for job in self.jobs), [job.status for job in self.jobs])

    @property
    def jobs(self) -> list[Job[R]]:
        """The handles of the Jobs of the sweep."""
        return [Job(job) for job, _ in self.handle.parts]

    def wait(self, timeout: float | None = None, *, progress: bool = True) -> Self:
        """Wait until all calls have ended. Failures are not raised. A terminal shows how many have ended."""
        run(self.handle.wait(timeout, progress=progress))
        return self

    results = awaited(AsyncSweep.results)
    cancel = awaited(AsyncSweep.cancel)

    def as_completed(self) -> Iterator[Outcome]:
        """Yield the outcome of each call as soon as it is known. Each outcome has the index of the arguments of its call."""
        return iterated(self.handle.as_completed())

    def values(self, *, in_order: bool = True) -> Iterator[R]:
        """Yield the values in the order of the arguments, or with `in_order=False` when they arrive.

        The first error is raised.
        """
        kept: dict[int, R] = {}
        following = 0
        for outcome in self.as_completed():
            if outcome.error is not None:
                raise outcome.error
            if not in_order:
                yield outcome.value
                continue
            kept[outcome.index] = outcome.value
            while following in kept:
                yield kept.pop(following)
                following += 1

    @property
    def failed(self) -> list[int]:
        """Wait until all calls have ended. Return the indices of the failed calls."""
        return run(self.handle.failed())

    def retry(self) -> Self:
        """Submit the failed calls again. Their new outcomes replace the old ones."""
        run(self.handle.retry())
        return self
