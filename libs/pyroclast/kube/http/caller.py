"""Calls to the API server: limited in number, retried where that is safe, fenced, and counted.

A task that leads by a Lease begins no write once that Lease may have been lost. The fence is stored in the context of the leading
task and of every task that it starts, so callers need not name it.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Final, TypeAlias

import msgspec

from pyroclast.kube.basics.deadline import Deadline
from pyroclast.kube.basics.errors import ApiError, ConnectionFailed, KubeError
from pyroclast.kube.basics.observer import Observer
from pyroclast.kube.basics.retry import Repeat, TokenBucket, jittered_backoff, pause_before_retry
from pyroclast.kube.credentials.config import ClusterConfig
from pyroclast.kube.http.connections import Request
from pyroclast.kube.http.transport import Transport
from pyroclast.resources.backoff import Backoff

Fence: TypeAlias = Callable[[], str | None]
"""Returns why no write may begin now; None when writes may begin."""

_current: ContextVar[Fence | None] = ContextVar("fence", default=None)


@contextmanager
def fenced(fence: Fence) -> Iterator[None]:
    """Refuse every write of this block, and of the tasks that the block starts, while `fence` gives a reason."""
    token = _current.set(fence)
    try:
        yield
    finally:
        _current.reset(token)


def closed_because() -> str | None:
    """Return why the current task may not begin a write; None when the task may."""
    fence = _current.get()
    return None if fence is None else fence()


LONGEST_LINE: Final = 16 * 1024 * 1024  # bytes; the API server refuses objects of more than 3 MiB


class LineSplitter:
    """Splits arriving chunks into complete lines without line ends; `rest` is the incomplete last line."""

    def __init__(self) -> None:
        self.rest = b""

    def feed(self, chunk: bytes) -> list[bytes]:
        """Return the lines that `chunk` completes, without empty lines.

        Raises ConnectionFailed: a line is longer than any object can be.
        """
        lines = (self.rest + chunk if self.rest else chunk).split(b"\n")
        self.rest = lines.pop()
        if len(self.rest) > LONGEST_LINE:
            raise ConnectionFailed(f"a line of the stream is longer than {LONGEST_LINE} bytes")
        return [line for line in lines if line]


CALL_SECONDS: Final = 30.0  # the webhooks of a write may take up to 10 s each
FIRST_PAUSE: Final = 0.1
LONGEST_PAUSE: Final = 5.0


class Call(msgspec.Struct, frozen=True, gc=False):
    """A request and its options.

    Attributes:
        verb: the verb as RBAC and metrics name it.
        resource: `plural.group[/subresource]`, for metrics.
        repeat: the effect of sending the request twice.
        seconds: the time limit of one attempt.
    """

    request: Request
    verb: str
    resource: str = ""
    repeat: Repeat = Repeat.HARMLESS
    seconds: float = CALL_SECONDS


class Caller:
    """Performs the calls of a client."""

    def __init__(
        self,
        config: ClusterConfig,
        observer: Observer,
        *,
        max_in_flight: int,
        qps: float,
        burst: int,
        max_attempts: int,
        user_agent: str,
        on_warning: Callable[[str], None] | None = None,
    ) -> None:
        self.transport = Transport(config, user_agent, on_warning)
        self._observer = observer
        self._most = max_in_flight
        self._max_attempts = max_attempts
        self._slots = asyncio.Semaphore(max_in_flight)
        self._bucket = TokenBucket(qps, max(burst, 1)) if qps > 0 else None

    async def call(self, call: Call, deadline: Deadline | None = None) -> bytes:
        """Return the body of the response, after as many attempts as are allowed before `deadline`, all waits included."""
        deadline = deadline or Deadline.after(CALL_SECONDS)
        backoff: Backoff | None = None
        while True:
            try:
                return await self._attempt(call, deadline)
            except KubeError as error:
                backoff = backoff or jittered_backoff(FIRST_PAUSE, LONGEST_PAUSE)
                pause = pause_before_retry(error, call.repeat, backoff)
                if pause is None or pause >= deadline.left() or backoff.failures >= self._max_attempts:
                    raise
            await asyncio.sleep(pause)

    async def line_batches(self, request: Request, resource: str, *, silence: float) -> AsyncGenerator[list[bytes]]:
        """Yield the lines of a long response in batches of lines that arrived together. An empty batch first: the server has
        accepted.

        The request is not repeated. A stream that is cut raises ConnectionFailed; a stream that ends normally ends the iteration.
        `silence`: seconds without a byte after which the stream counts as broken; 0 for no limit.
        """
        loop = asyncio.get_running_loop()
        began, status = loop.time(), 0
        try:
            async with self.transport.stream(request, silence) as (status, content):
                yield []
                splitter = LineSplitter()
                while chunk := await content.readany():
                    if lines := splitter.feed(chunk):
                        yield lines
                if splitter.rest:
                    raise ConnectionFailed("the stream ended within a line", verb=request.method, path=request.path)
        except ApiError as error:
            status = error.status
            raise
        finally:
            self._observer.request("watch", resource, status, loop.time() - began)

    async def _attempt(self, call: Call, deadline: Deadline) -> bytes:
        await self._wait_for_slot(call, deadline)
        try:
            if call.request.method != "GET" and (closed := closed_because()):
                raise _not_sent(call, closed)
            return await self._send(call, min(call.seconds, max(deadline.left(), 0.001)))
        finally:
            self._slots.release()

    async def _wait_for_slot(self, call: Call, deadline: Deadline) -> None:
        """Wait until a request may be sent, but no longer than `deadline`. When the wait fails, nothing was sent."""
        if self._bucket is not None and not await self._bucket.wait(deadline.left()):
            raise _not_sent(call, f"the limit of {self._bucket.rate:g} requests per second leaves no room for it in time")
        if not self._slots.locked():
            await self._slots.acquire()
            return
        try:
            async with asyncio.timeout_at(deadline.at):
                await self._slots.acquire()
        except TimeoutError:
            raise _not_sent(call, f"{self._most} requests were under way and none ended in time") from None

    async def _send(self, call: Call, seconds: float) -> bytes:
        loop = asyncio.get_running_loop()
        began, status = loop.time(), 0
        try:
            status, answer = await self.transport.send(call.request, seconds)
        except ApiError as error:
            status = error.status
            raise
        finally:
            self._observer.request(call.verb, call.resource, status, loop.time() - began)
        return answer


def _not_sent(call: Call, why: str) -> ConnectionFailed:
    return ConnectionFailed(f"not sent: {why}", sent=False, verb=call.request.method, path=call.request.path)
