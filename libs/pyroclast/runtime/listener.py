"""Accepts connections with a limit on their number, and with deadlines for what each peer must send and read.

So many or slow clients cost little.
"""

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

from pyroclast.runtime.errors import StartFailure
from pyroclast.runtime.fields import split_address

log = structlog.get_logger()

HEAD_SECONDS: Final = 5.0
"""Seconds for the TLS handshake, and again for the head of a request."""

WRITE_SECONDS: Final = 5.0
"""Seconds for a peer to read even the smallest response: enough for a busy client, or a few lost packets."""

WRITE_BYTES_PER_SECOND: Final = 64 * 1024
"""A large response gets one more second for each so many bytes. Over a slower connection, scraping is not possible."""

MOST_CONNECTIONS: Final = 256
"""The most parallel connections. Beyond this number, the oldest connection that waits for no response, or does not read its
response, is closed.
"""

BACKLOG: Final = 128
NOT_ACCEPTING_SECONDS: Final = 1.0
"""Pause, in seconds, when no connection can be accepted, for example for lack of file descriptors, so that the loop is
not busy.
"""

WHOLE_BYTES: Final = 256 * 1024
"""A larger body is written in parts. TLS accepts a whole write at once, and would hide whether the peer reads."""

GONE: Final = frozenset({errno.ECONNABORTED, errno.ECONNRESET, errno.EPROTO, errno.EINTR})
"""Errors of accepting that mean that the peer is gone; the next connection may succeed."""


class Listener:
    """Serves HTTP with the options of `aiohttp.web.Server`.

    `shutdown_timeout`: seconds for which `stop` waits for unfinished responses.
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
        **options: Any,  # noqa: ANN401 - the options of aiohttp's server
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
        """Return the number of connections."""
        return len(self._connections)

    @property
    def port(self) -> int:
        """The port on which the listener listens."""
        return int(self._sockets[0].getsockname()[1])

    async def start(self, host: str | None, port: int) -> None:
        """Listen on `host` and `port`; without a host on all addresses, with port 0 on any free port.

        Raises OSError: the listener cannot listen on this address.
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
        """Listen on `address`, in the form HOST:PORT. `flag`: the flag that set the address.

        Raises StartFailure: the listener cannot listen on this address.
        """
        host, port = split_address(address)
        try:
            await self.start(host, port)
        except OSError as error:
            raise StartFailure(f"{flag}: cannot listen on {address}: {error.strerror or error}") from error

    async def stop(self) -> None:
        """Accept no new connections, answer the received requests, then close."""
        for accepting in self._accepting:
            accepting.cancel()
        await asyncio.gather(*self._accepting, return_exceptions=True)
        for each in self._sockets:
            each.close()
        for task, connection in list(self._connections.items()):
            if connection is None:
                task.cancel()
        await self.runner.cleanup()
        if self._connections:  # each is closed as soon as its peer has read the response
            await asyncio.wait(self._connections, timeout=self._patience.write_seconds)
        for task in list(self._connections):
            task.cancel()
        await asyncio.gather(*self._connections, return_exceptions=True)

    def abort(self) -> None:
        """Stop at once: all connections are closed, and no request is answered any more."""
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
            except (OSError, RuntimeError) as error:  # uvloop raises RuntimeError for a socket whose number another socket has
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
        """Close the oldest connection that waits for no response or does not read it; return whether there was one."""
        for task, connection in self._connections.items():
            if connection is None or not connection.is_busy:
                task.cancel()
                await asyncio.wait([task])
                return True
        return False

    def _ended(self, accepted: socket.socket, task: asyncio.Task[None]) -> None:
        del self._connections[task]
        if task.cancelled():  # cancelled before it began
            accepted.close()

    async def _serve(self, accepted: socket.socket) -> None:
        """Serve a connection until it is closed, or until cancelled."""
        loop = asyncio.get_running_loop()
        limits: dict[str, Any] = {}
        if self._tls is not None:
            patience = self._patience
            limits = {"ssl_handshake_timeout": patience.head_seconds, "ssl_shutdown_timeout": patience.write_seconds}
        connection = self._server()
        try:
            transport, _ = await loop.connect_accepted_socket(lambda: connection, accepted, ssl=self._tls, **limits)
        except (OSError, RuntimeError, asyncio.CancelledError):  # the handshake failed, and the loop has closed the connection
            return
        task = asyncio.current_task()
        if task is not None:
            self._connections[task] = connection
        try:
            await connection.closed.wait()
        except asyncio.CancelledError:
            transport.abort()  # a slow peer would not complete the end of TLS either


@dataclass(frozen=True, slots=True)
class _Patience:
    head_seconds: float
    write_seconds: float
    write_bytes_per_second: float

    def for_answer(self, size: int) -> float:
        return self.write_seconds + size / self.write_bytes_per_second


class _Server(web.Server):
    """Creates a handler for each connection."""

    def __init__(
        self,
        handler: Callable[[web.BaseRequest], Awaitable[web.StreamResponse]],
        patience: _Patience,
        **options: Any,  # noqa: ANN401
    ) -> None:
        super().__init__(handler, **options)
        self._patience = patience

    def __call__(self) -> _Connection:
        """Return the handler of a new connection."""
        return _Connection(self, self._patience, loop=self._loop, **self._kwargs)


class _Connection(RequestHandler):
    """A connection with deadlines for the heads of its requests and for reading its responses."""

    __slots__ = ("_deadline", "_patience", "closed")

    def __init__(self, manager: web.Server, patience: _Patience, **options: Any) -> None:  # noqa: ANN401 - the options of aiohttp
        super().__init__(manager, **options)
        self._patience = patience
        self._deadline: asyncio.TimerHandle | None = None
        self.closed = asyncio.Event()

    @property
    def is_busy(self) -> bool:
        """Whether a request is being answered and the peer reads the response."""
        return self._is_asked and not self.writing_paused

    @property
    def _is_asked(self) -> bool:
        """Whether a request is being answered or waits for an answer."""
        return self._request_in_progress or bool(self._messages)

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Begin the connection: a head of a request must follow."""
        super().connection_made(transport)
        # With this limit, a response counts as written only when the system has accepted all of it; otherwise nobody would wait
        # for the end.
        cast(asyncio.WriteTransport, transport).set_write_buffer_limits(high=1)
        self._expect_head()

    def data_received(self, data: bytes) -> None:
        """Handle received bytes of a request."""
        super().data_received(data)
        if self._is_asked:
            self._stop_waiting()
        # else the data is a body, whose request has begun or was answered
        elif self._deadline is None and self._waiter is not None:
            self._expect_head()

    def connection_lost(self, exc: BaseException | None) -> None:
        """Handle the end of the connection."""
        super().connection_lost(exc)
        self._stop_waiting()
        self.closed.set()

    async def finish_response(
        self, request: web.BaseRequest, resp: web.StreamResponse, start_time: float | None
    ) -> tuple[web.StreamResponse, bool]:
        """Write a response. The deadline is for the whole response, so that a peer gains no time by reading slowly."""
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
