"""`Pool`: an executor whose pods stay. They connect to this program, which feeds them calls, thousands of short ones too.

A pod that starts for each call costs most of a second. The workers of a pool start once, keep the functions that they have
loaded, and get calls over a connection whose frames are sealed with the key of their Job; see `runner.serving`. The program that
creates a pool must be reachable from pods. When it ends, its workers end.
"""

from __future__ import annotations

import asyncio
import collections
import contextlib
import hmac
import secrets
import socket
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from hashlib import sha256
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import urlsplit

import structlog

from pyroclast_client import errors
from pyroclast_client.collecting import STOPPED
from pyroclast_client.compilation import CRASHES, seconds_of
from pyroclast_client.documents import fresh_name
from pyroclast_client.executors import TTL_SECONDS, Item, PodExecutor
from pyroclast_client.loops import background_loop, end, run
from pyroclast_client.options import SweepCall, TaskOptions
from pyroclast_client.payload import Arguments
from pyroclast_client.results import outcome_of
from pyroclast_client.runner import sealing, serving

if TYPE_CHECKING:
    from pyroclast_client.handles import AsyncJob
    from pyroclast_client.synchronous import Client

log = structlog.get_logger()

STEM: Final = "pool"
GREETING_SECONDS: Final = 10.0
MOST_STRANGERS: Final = 64  # connections that have not proved yet that they are workers
AHEAD_SECONDS: Final = 0.05  # so much work waits at a worker, so that it does not wait for the next call
MOST_AHEAD: Final = 32
LEAVE_SECONDS: Final = 10.0
ADVICE: Final = "submit the calls again, and `pool.explain()` says why workers wait"


@dataclass(eq=False)
class _Call:
    """A call of the pool. `lost` counts the workers that ended while they ran it."""

    item: Item
    digest: str
    lost: int = 0


@dataclass(eq=False)
class _Worker:
    """A connected worker, with the calls that were sent to it, in order."""

    writer: asyncio.StreamWriter
    channel: serving.Channel
    functions: dict[str, None] = field(default_factory=dict)
    calls: dict[int, _Call] = field(default_factory=dict)
    seconds: float = AHEAD_SECONDS  # that a call takes
    since: float = 0.0
    is_leaving: bool = False

    @property
    def room(self) -> int:
        """How many more calls the worker should have."""
        return 0 if self.is_leaving else min(MOST_AHEAD, 1 + int(AHEAD_SECONDS / (self.seconds + 1e-6) / 2)) - len(self.calls)


class Pool(PodExecutor):
    """An executor with warm workers: `with pc.Pool(workers=8, gpus=1) as pool: list(pool.map(f, xs))`.

    A call that its worker did not survive runs again as often as `retries` says, and always when the worker was evicted.
    `timeout` limits each call.

    Args:
        workers: how many pods.
        client: the client to use. The default client by default.
        host: the address at which pods reach this program. By default that by which this machine reaches the API server.
        idle: the seconds without a call after which the pods end. The next call starts new ones.
        name: the name by which `Client.jobs(executor=NAME)` finds the Jobs.
        options: options of `task`.
    """

    def __init__(
        self,
        workers: int = 4,
        *,
        client: Client | None = None,
        host: str | None = None,
        idle: float = 60.0,
        name: str = STEM,
        **options: Any,  # noqa: ANN401 - the options of `task`
    ) -> None:
        super().__init__(client, name, {"ttl": TTL_SECONDS, **options})
        if workers < 1:
            raise errors.Usage(f"Pool: workers: {workers} is no number of pods; give 1 or more")
        self._count_of_workers, self._host, self._idle = workers, host, idle
        self._is_awake = False
        # in the event loop only
        self._queue: collections.deque[_Call] = collections.deque()
        self._workers: set[_Worker] = set()
        self._number = 0
        self._key = b""
        self._job: AsyncJob[Any] | None = None
        self._life: asyncio.Task[None] | None = None
        self._changed = asyncio.Event()

    def _wake(self) -> None:
        if not self._is_awake:
            self._is_awake = True
            background_loop().call_soon_threadsafe(self._take)

    def _ended(self, *, cancel_futures: bool) -> None:
        run(self._end(cancel=cancel_futures))

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
        """Accept no more calls. With `cancel_futures`, waiting and running calls are cancelled, and the Job is deleted."""
        super().shutdown(wait, cancel_futures=cancel_futures)
        if wait:
            run(self._left())

    def explain(self) -> str:
        """Return how many workers are connected, and why the others wait."""
        return run(self._explained())

    # The following methods run in the event loop.

    def _take(self) -> None:
        """Queue the new calls, and start workers if there are none."""
        with self._lock:
            self._is_awake = False
            taken = list(self._waiting)
            self._waiting.clear()
        self._queue += [_Call(item, sha256(item.function).hexdigest()) for item in taken]
        if self._queue and self._life is None:
            self._life = asyncio.get_running_loop().create_task(self._live())
        self._feed()

    def _feed(self) -> None:
        """Send waiting calls to the workers that have room, to the least busy ones first."""
        self._changed.set()
        while self._queue:
            worker = max(self._workers, key=lambda each: each.room, default=None)
            if worker is None or worker.room <= 0:
                return
            call = self._queue.popleft()
            if (size := len(call.item.function) + len(call.item.arguments)) > serving.MOST_CONTENT:
                text = f"{call.item.name} and its arguments are {size:,} bytes, more than the {serving.MOST_CONTENT:,} of a call"
                self._settled(call.item.future, None, errors.Usage(f"{text}; hand over the place of the data instead"))
            elif call.lost or call.item.future.running() or call.item.future.set_running_or_notify_cancel():
                self._send(worker, call)
            else:
                self._told.put(self._count)

    def _send(self, worker: _Worker, call: _Call) -> None:
        function = call.item.function
        if call.digest in worker.functions:
            function = b""
        else:
            worker.functions[call.digest] = None
            if len(worker.functions) > serving.MOST_FUNCTIONS:
                del worker.functions[next(iter(worker.functions))]
        self._number += 1
        if not worker.calls:
            worker.since = time.monotonic()
        worker.calls[self._number] = call
        header = {"do": "call", "id": self._number, "function": call.digest, "size": len(function)}
        worker.writer.write(worker.channel.sealed(header, function, call.item.arguments))

    async def _live(self) -> None:
        """Keep workers as long as there are calls and until the pool was idle for some time."""
        try:
            while self._queue:
                await self._one_job()
        except Exception as error:  # noqa: BLE001 - the futures have the exception
            for call in self._dropped():
                self._settled(call.item.future, None, error)
        finally:
            self._life = None
            if self._queue:
                self._take()

    async def _one_job(self) -> None:
        """Listen, run a Job of workers, and feed them until none is needed any more.

        Raises:
            PyroclastError: the Job ended before a worker connected, or somebody ended it.
        """
        self._key = b""
        config, serializer = self._client.config, self._options.serializer
        host = self._host if self._host is not None else await asyncio.to_thread(_own_address, config.server)
        connected = asyncio.Event()
        strangers = asyncio.Semaphore(MOST_STRANGERS)

        async def meet(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            if strangers.locked():
                writer.close()
                return
            async with strangers:
                worker = await self._greeted(reader, writer)
            if worker is not None:
                connected.set()
                await self._serve(worker, reader)

        server = await asyncio.start_server(meet, host, 0)
        port = server.sockets[0].getsockname()[1]
        timeout = 0 if self._options.timeout is None else seconds_of(self._options.timeout)
        call: SweepCall[Any] = SweepCall(
            _served(host, port, timeout, self._options.retries + 1, serializer),
            (Arguments(),) * self._count_of_workers,
            _of_workers(self._options),
            self.name,
            self.name,
        )
        ended: asyncio.Task[Any] | None = None
        try:
            self._job = job = await self._client.submit_part(call, range(len(call.arguments)), fresh_name(self.name))
            self._key = await job.key_of_results()
            ended = asyncio.get_running_loop().create_task(job.wait(check=False))
            await self._until_idle(ended)
            if ended.done():
                await ended  # raises when the Job was deleted
                status = await job.status()
                if status.phase in STOPPED or not connected.is_set():
                    error = next((each.error for each in await job.outcomes() if isinstance(each.error, errors.TaskError)), None)
                    text = f"Job {job.key} of the pool ended as {status.phase}"
                    raise error or errors.JobFailed(f"{text}; {ADVICE}", job=str(job.key), phase=status.phase)
            for worker in self._workers:
                worker.writer.write(worker.channel.sealed({"do": "leave"}))
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(asyncio.shield(ended), LEAVE_SECONDS)
            if not ended.done():  # some of its pods have not started yet
                await job.cancel()
        finally:
            self._job = None
            server.close()
            if ended is not None:
                await end([ended])

    async def _until_idle(self, ended: asyncio.Task[Any]) -> None:
        """Return when the Job has ended, or when there was no call for some time."""
        while not ended.done():
            self._changed.clear()
            is_busy = bool(self._queue) or any(worker.calls for worker in self._workers)
            change = asyncio.get_running_loop().create_task(self._changed.wait())
            limit = None if is_busy else 0.0 if self._is_shut else self._idle
            done, _ = await asyncio.wait((change, ended), timeout=limit, return_when=asyncio.FIRST_COMPLETED)
            await end([change])
            if not done:
                return

    async def _greeted(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> _Worker | None:
        """Return the worker of a connection. None for one that does not prove that it has the key of the Job."""
        nonce = secrets.token_bytes(serving.NONCE)
        try:
            writer.write(nonce)
            async with asyncio.timeout(GREETING_SECONDS):
                theirs, given = serving.GREETING.unpack(await reader.readexactly(serving.GREETING.size))
                while not self._key:  # the worker may be faster than the answer to our submission
                    await asyncio.sleep(0.01)
        except (OSError, TimeoutError, asyncio.IncompleteReadError):
            writer.close()
            return None
        if not hmac.compare_digest(given, serving.proof(self._key, serving.WORKER, nonce + theirs)):
            log.warning("pool.stranger", peer=str(writer.get_extra_info("peername")))
            writer.close()
            return None
        writer.write(serving.proof(self._key, serving.DRIVER, nonce + theirs))
        serving.set_up(writer.get_extra_info("socket"))
        return _Worker(writer, serving.Channel(self._key, nonce + theirs, serving.DRIVER))

    async def _serve(self, worker: _Worker, reader: asyncio.StreamReader) -> None:
        """Feed a worker and take its results, until its connection ends."""
        self._workers.add(worker)
        is_evicted = False
        try:
            self._feed()
            while True:
                size, mac = serving.size_of(await reader.readexactly(serving.HEAD.size))
                header, payload = worker.channel.opened(mac, await reader.readexactly(size))
                if header["kind"] == "evicted":
                    is_evicted = True
                    break
                self._result(worker, header, payload)
                await worker.writer.drain()
        except (OSError, asyncio.IncompleteReadError):
            pass  # the worker has ended, or its node is lost
        except serving.Forged as error:
            log.warning("pool.forged", why=str(error))
        finally:
            self._workers.discard(worker)
            worker.writer.close()
            self._lost(worker, is_evicted=is_evicted)

    def _result(self, worker: _Worker, header: dict[str, Any], payload: bytes) -> None:
        call = worker.calls.pop(header["id"], None)
        if call is None:  # it was cancelled
            return
        now = time.monotonic()
        worker.seconds += (now - worker.since - worker.seconds) / 4
        worker.since = now
        worker.is_leaving = header["kind"] == "timeout"  # its pod starts again
        self._feed()
        name = call.item.name
        message = {"kind": header["kind"], "index": 0, "encoding": self._options.serializer}
        what = f"a call of {name} in {self.name}"
        outcome = outcome_of(message, payload, what=what, name=name, is_json=self._options.serializer == "json")
        self._settled(call.item.future, outcome.value, outcome.error)

    def _lost(self, worker: _Worker, *, is_evicted: bool) -> None:
        """Run the calls of a worker that has ended elsewhere. It ran the first of them."""
        again = []
        for place, call in enumerate(worker.calls.values()):
            call.lost += not is_evicted and not place
            if call.lost > self._options.retries:
                text = f"the worker that ran {call.item.name} ended: it was killed, ran out of memory, or its node is lost"
                job = "" if self._job is None else str(self._job.key)
                advice = f"`vcctl describe job {job}` shows its pods; with `retries=1` another worker runs the call again"
                self._settled(call.item.future, None, errors.JobFailed(f"{text}. {advice}", job=job))
            else:
                again.append(call)
        self._queue.extendleft(reversed(again))
        self._feed()

    def _dropped(self) -> list[_Call]:
        """Return all calls without a result, and forget them."""
        calls = [*self._queue, *(call for worker in self._workers for call in worker.calls.values())]
        self._queue.clear()
        for worker in self._workers:
            worker.calls.clear()
        return calls

    async def _end(self, *, cancel: bool) -> None:
        """After the last call, let the workers leave. With `cancel`, delete them at once."""
        self._take()
        if cancel:
            for call in self._dropped():
                self._cancelled(call.item.future)
            if self._job is not None:
                with contextlib.suppress(errors.NotFound):
                    await self._job.delete()
        self._changed.set()

    async def _left(self) -> None:
        if self._life is not None:
            await asyncio.shield(self._life)

    async def _explained(self) -> str:
        text = f"{len(self._workers)} of {self._count_of_workers} workers are connected"
        return text if self._job is None else f"{text}; {await self._job.explain()}"


def _of_workers(options: TaskOptions) -> TaskOptions:
    """Return the options of a Job of workers: one that is evicted, killed, or has a call over its timeout starts again."""
    codes = (sealing.REQUEUED, sealing.TIMED_OUT, *CRASHES)
    again = [{"exitCode": code, "action": "RestartPod"} for code in codes]
    patch = {"maxRetry": 10_000, "policies": [{"event": "PodEvicted", "action": "RestartPod"}, *again], **options.patch}
    return options.changed({"retries": 0, "timeout": None, "patch": patch})


def _own_address(server: str) -> str:
    """Return the address of this machine from which it reaches the API server. Nothing is sent."""
    parts = urlsplit(server)
    host, port = parts.hostname or "127.0.0.1", parts.port or 443
    family, _, _, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_DGRAM)[0]
    with socket.socket(family, socket.SOCK_DGRAM) as probe:
        probe.connect(address)
        return str(probe.getsockname()[0])


def _served(host: str, port: int, timeout: float, tries: int, serializer: str) -> Callable[[], int]:
    """Return the function that serves as a worker. A nested function is pickled by value: pods do not have this module."""

    def serve() -> int:
        import pathlib  # noqa: PLC0415 - in the pod
        import sys  # noqa: PLC0415 - in the pod

        import serving as there  # type: ignore[import-not-found]  # noqa: PLC0415 - in the runner

        runner = sys.modules["__main__"]
        key = (pathlib.Path(sys.argv[0]).resolve().parent / "key").read_bytes()
        worker = there.Worker(host, port, key, timeout=timeout, encode=lambda value: runner.encoded(serializer, value))
        return int(worker.serve(lambda error: runner.described(error, skip=1), tries))

    return serve
