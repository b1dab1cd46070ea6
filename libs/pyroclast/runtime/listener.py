"""Accepting connections so that slow or many clients cost little: a ceiling, and deadlines for what each must send and take."""

from __future__ import annotations

import asyncio
import errno
import io
import socket
import ssl
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from functools import partial
from typing import Any, Final, cast

import structlog
from aiohttp import web
from aiohttp.web_protocol import RequestHandler

from pyroclast.runtime.addresses import split_address
from pyroclast.runtime.errors import StartFailure

__all__ = ["HEAD_SECONDS", "MOST_CONNECTIONS", "WRITE_SECONDS", "Listener"]

log = structlog.get_logger()

HEAD_SECONDS: Final = 5.0
"""How long a handshake may take, and then the head of a request."""

WRITE_SECONDS: Final = 5.0
"""How long a peer may take to read an answer, however small: a loaded client, a lost packet or two."""

WRITE_BYTES_PER_SECOND: Final = 64 * 1024
"""A large answer has a second more for so many bytes: a steady link that is slower than this is too slow to be scraped over."""

MOST_CONNECTIONS: Final = 256
"""Connections at the same time. Past it the oldest that has no answer to come, or does not read it, is closed for a new one."""

BACKLOG: Final = 128
NOT_ACCEPTING_SECONDS: Final = 1.0
"""Pause when there are no more files, or the like: to ask again at once would keep the loop from all else."""

WHOLE_BYTES: Final = 256 * 1024
"""A larger body is written in parts: TLS takes all of one write at once, and then nobody sees whether the peer does."""

GONE: Final = frozenset({errno.ECONNABORTED, errno.ECONNRESET, errno.EPROTO, errno.EINTR})
"""How accepting fails when whoever came is gone again: the next one may be well."""


class Listener:
    """Serves HTTP. Takes the options of `aiohttp.web.Server`.

    Args:
        handler: answers a request.
        tls: serve TLS with this.
        most: see `MOST_CONNECTIONS`.
        head_seconds: see `HEAD_SECONDS`.
        write_seconds: see `WRITE_SECONDS`.
        write_bytes_per_second: see `WRITE_BYTES_PER_SECOND`.
        shutdown_timeout: how long `stop` waits for answers that are being worked out.
    """

    def __init__(
        self,
        handler: Callable[[web.BaseRequest], Awaitable[web.StreamResponse]],
        *,
        tls: ssl.SSLContext | None = None,
        most: int = MOST_CONNECTIONS,
        head_seconds: float = HEAD_SECONDS,
        write_seconds: float = WRITE_SECONDS,
        write_bytes_per_second: float = WRITE_BYTES_PER_SECOND,
        shutdown_timeout: float = 60.0,
        **options: Any,  # noqa: ANN401 - those of the server
    ) -> None:
        patience = _Patience(head_seconds, write_seconds, write_bytes_per_second)
        self._server = _Server(handler, patience, access_log=None, **options)
        self.runner = web.ServerRunner(self._server, handle_signals=False, shutdown_timeout=shutdown_timeout)
        self._tls = tls
        self._most = most
        self._patience = patience
        self._sockets: list[socket.socket] = []
        self._accepting: list[asyncio.Task[None]] = []
        self._connections: dict[asyncio.Task[None], _Connection | None] = {}

    def __len__(self) -> int:
        """How many connections there are."""
        return len(self._connections)

    @property
    def port(self) -> int:
        """Where it listens."""
        return int(self._sockets[0].getsockname()[1])

    async def start(self, host: str | None, port: int) -> None:
        """Listen; no host: on all addresses; port 0: on any that is free.

        Raises:
            OSError: that cannot be.
        """
        await self.runner.setup()
        loop = asyncio.get_running_loop()
        found = await loop.getaddrinfo(host or None, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
        try:
            for family, kind, protocol, _, address in dict.fromkeys(found):
                self._sockets.append(_listening(family, kind, protocol, (address[0], port or self._first_port, *address[2:])))
        except OSError:
            await self.stop()
            raise
        self._accepting = [loop.create_task(self._accept(each)) for each in self._sockets]

    async def start_at(self, address: str, flag: str) -> None:
        """Listen at `address`, HOST:PORT, which `flag` gave.

        Raises:
            StartFailure: that cannot be.
        """
        host, port = split_address(address)
        try:
            await self.start(host, port)
        except OSError as error:
            raise StartFailure(f"{flag}: cannot listen on {address}: {error.strerror or error}") from error

    async def stop(self) -> None:
        """Take nothing new, answer what has been asked, then close."""
        for accepting in self._accepting:
            accepting.cancel()
        await asyncio.gather(*self._accepting, return_exceptions=True)
        for each in self._sockets:
            each.close()
        for task, connection in list(self._connections.items()):
            if connection is None:
                task.cancel()
        await self.runner.cleanup()
        if self._connections:  # they are closed as soon as their peers have taken what was written
            await asyncio.wait(self._connections, timeout=self._patience.write_seconds)
        for task in list(self._connections):
            task.cancel()
        await asyncio.gather(*self._connections, return_exceptions=True)

    def abort(self) -> None:
        """Be gone at once: nothing is answered any more, every connection breaks."""
        for accepting in self._accepting:
            accepting.cancel()
        for each in self._sockets:
            each.close()
        for task in list(self._connections):
            task.cancel()

    @property
    def _first_port(self) -> int:
        return self.port if self._sockets else 0

    async def _accept(self, listening: socket.socket) -> None:
        loop = asyncio.get_running_loop()
        while True:
            try:
                accepted, _ = await loop.sock_accept(listening)
            except (OSError, RuntimeError) as error:  # RuntimeError is uvloop's word for a socket whose number another has
                if not isinstance(error, OSError) or error.errno not in GONE:
                    log.warning("listener.no_more_connections", error=str(error))
                    await asyncio.sleep(NOT_ACCEPTING_SECONDS)
                continue
            if len(self._connections) >= self._most and not await self._make_room():
                accepted.close()
                continue
            task = loop.create_task(self._serve(accepted))
            self._connections[task] = None
            task.add_done_callback(partial(self._ended, accepted))

    async def _make_room(self) -> bool:
        """Close the oldest connection that is not being answered, or does not take its answer; whether there was one."""
        for task, connection in self._connections.items():
            if connection is None or not connection.is_busy:
                task.cancel()
                await asyncio.wait([task])
                return True
        return False

    def _ended(self, accepted: socket.socket, task: asyncio.Task[None]) -> None:
        del self._connections[task]
        if task.cancelled():  # before it began
            accepted.close()

    async def _serve(self, accepted: socket.socket) -> None:
        """Have a connection served, until it is closed, or by being cancelled."""
        loop = asyncio.get_running_loop()
        limits: dict[str, Any] = {}
        if self._tls is not None:
            patience = self._patience
            limits = {"ssl_handshake_timeout": patience.head_seconds, "ssl_shutdown_timeout": patience.write_seconds}
        connection = self._server()
        try:
            transport, _ = await loop.connect_accepted_socket(lambda: connection, accepted, ssl=self._tls, **limits)
        except (OSError, RuntimeError, asyncio.CancelledError):  # no handshake: nobody to tell, and the loop has closed it
            return
        task = asyncio.current_task()
        if task is not None:
            self._connections[task] = connection
        try:
            await connection.closed.wait()
        except asyncio.CancelledError:
            transport.abort()  # a slow one would not agree to the end of TLS either


@dataclass(frozen=True, slots=True)
class _Patience:
    head_seconds: float
    write_seconds: float
    write_bytes_per_second: float

    def for_answer(self, size: int) -> float:
        return self.write_seconds + size / self.write_bytes_per_second


class _Server(web.Server):
    """Makes a handler for each connection."""

    def __init__(
        self,
        handler: Callable[[web.BaseRequest], Awaitable[web.StreamResponse]],
        patience: _Patience,
        **options: Any,  # noqa: ANN401
    ) -> None:
        super().__init__(handler, **options)
        self._patience = patience

    def __call__(self) -> _Connection:
        """A handler."""
        return _Connection(self, self._patience, loop=self._loop, **self._kwargs)


class _Connection(RequestHandler):
    """A connection whose heads must arrive, and whose answers must be taken, in time."""

    __slots__ = ("_deadline", "_patience", "closed")

    def __init__(self, manager: web.Server, patience: _Patience, **options: Any) -> None:  # noqa: ANN401 - those of aiohttp
        super().__init__(manager, **options)
        self._patience = patience
        self._deadline: asyncio.TimerHandle | None = None
        self.closed = asyncio.Event()

    @property
    def is_busy(self) -> bool:
        """Whether we are at work for it: it is asked for something, and takes what it is told."""
        return self._is_asked and not self.writing_paused

    @property
    def _is_asked(self) -> bool:
        """Whether a request is being answered, or waits for that."""
        return self._request_in_progress or bool(self._messages)

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """It begins: a head is expected."""
        super().connection_made(transport)
        # An answer is written, and a closed connection has gone, when the system has taken all; else nobody waits for the rest.
        cast(asyncio.WriteTransport, transport).set_write_buffer_limits(high=1)
        self._expect_head()

    def data_received(self, data: bytes) -> None:
        """Part of a head, or of a body."""
        super().data_received(data)
        if self._is_asked:
            self._stop_waiting()
        elif self._deadline is None and self._waiter is not None:  # else it is a body, whose request is begun or answered already
            self._expect_head()

    def connection_lost(self, exc: BaseException | None) -> None:
        """It has ended."""
        super().connection_lost(exc)
        self._stop_waiting()
        self.closed.set()

    async def finish_response(
        self, request: web.BaseRequest, resp: web.StreamResponse, start_time: float | None
    ) -> tuple[web.StreamResponse, bool]:
        """Write an answer; the time is for all of it, so that a peer that reads a little now and then does not win more."""
        size = resp.content_length or 0
        if isinstance(resp, web.Response) and isinstance(resp.body, bytes) and size > WHOLE_BYTES:
            resp.body = io.BytesIO(resp.body)
        deadline = self._loop.call_later(self._patience.for_answer(size), self._too_late)
        try:
            return await super().finish_response(request, resp, start_time)
        finally:
            deadline.cancel()

    def _expect_head(self) -> None:
        self._deadline = self._loop.call_later(self._patience.head_seconds, self._too_late)

    def _too_late(self) -> None:
        if self.transport is not None:
            self.transport.abort()

    def _stop_waiting(self) -> None:
        if self._deadline is not None:
            self._deadline.cancel()
            self._deadline = None


def _listening(family: int, kind: int, protocol: int, address: tuple[Any, ...]) -> socket.socket:
    listening = socket.socket(family, kind, protocol)
    try:
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        if family == socket.AF_INET6:
            listening.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
        listening.setblocking(False)
        listening.bind(address)
        listening.listen(BACKLOG)
    except OSError:
        listening.close()
        raise
    return listening
