"""Accepting connections so that slow or many clients cost little: a ceiling, and a deadline for what each must send."""

from __future__ import annotations

import asyncio
import errno
import socket
import ssl
from collections.abc import Awaitable, Callable
from functools import partial
from typing import Any, Final

import structlog
from aiohttp import web
from aiohttp.web_protocol import RequestHandler

__all__ = ["HEAD_SECONDS", "MOST_CONNECTIONS", "Listener"]

log = structlog.get_logger()

HEAD_SECONDS: Final = 5.0
"""How long a handshake may take, and then the head of a request."""

MOST_CONNECTIONS: Final = 256
"""Connections at the same time. Past it the oldest that has no request under way is closed for a new one."""

BACKLOG: Final = 128
NOT_ACCEPTING_SECONDS: Final = 1.0
"""Pause when there are no more files, or the like: to ask again at once would keep the loop from all else."""

GONE: Final = frozenset({errno.ECONNABORTED, errno.ECONNRESET, errno.EPROTO, errno.EINTR})
"""How accepting fails when whoever came is gone again: the next one may be well."""


class Listener:
    """Serves HTTP. Takes the options of `aiohttp.web.Server`.

    Args:
        handler: answers a request.
        tls: serve TLS with this.
        most: see `MOST_CONNECTIONS`.
        head_seconds: see `HEAD_SECONDS`.
    """

    def __init__(
        self,
        handler: Callable[[web.BaseRequest], Awaitable[web.StreamResponse]],
        *,
        tls: ssl.SSLContext | None = None,
        most: int = MOST_CONNECTIONS,
        head_seconds: float = HEAD_SECONDS,
        shutdown_timeout: float = 60.0,
        **options: Any,  # noqa: ANN401 - those of the server
    ) -> None:
        self._server = _Server(handler, head_seconds, access_log=None, **options)
        self.runner = web.ServerRunner(self._server, handle_signals=False, shutdown_timeout=shutdown_timeout)
        self._tls = tls
        self._most = most
        self._head_seconds = head_seconds
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
        """Close the oldest connection that is not being answered; whether there was one."""
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
        timeout = self._head_seconds if self._tls is not None else None
        connection = self._server()
        try:
            await loop.connect_accepted_socket(lambda: connection, accepted, ssl=self._tls, ssl_handshake_timeout=timeout)
        except (OSError, RuntimeError, asyncio.CancelledError):  # no handshake: nobody to tell, and the loop has closed it
            return
        task = asyncio.current_task()
        if task is not None:
            self._connections[task] = connection
        try:
            await connection.closed.wait()
        except asyncio.CancelledError:
            if connection.transport is not None:
                connection.transport.abort()  # a slow one would not agree to the end of TLS either


class _Server(web.Server):
    """Makes a handler for each connection."""

    def __init__(
        self,
        handler: Callable[[web.BaseRequest], Awaitable[web.StreamResponse]],
        head_seconds: float,
        **options: Any,  # noqa: ANN401
    ) -> None:
        super().__init__(handler, **options)
        self._head_seconds = head_seconds

    def __call__(self) -> _Connection:
        """A handler."""
        return _Connection(self, self._head_seconds, loop=self._loop, **self._kwargs)


class _Connection(RequestHandler):
    """A connection whose heads must arrive in time."""

    __slots__ = ("_deadline", "_head_seconds", "closed")

    def __init__(self, manager: web.Server, head_seconds: float, **options: Any) -> None:  # noqa: ANN401 - those of aiohttp
        super().__init__(manager, **options)
        self._head_seconds = head_seconds
        self._deadline: asyncio.TimerHandle | None = None
        self.closed = asyncio.Event()

    @property
    def is_busy(self) -> bool:
        """Whether a request is being answered, or waits for that."""
        return self._request_in_progress or bool(self._messages)

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """It begins: a head is expected."""
        super().connection_made(transport)
        self._expect_head()

    def data_received(self, data: bytes) -> None:
        """Part of a head, or of a body."""
        super().data_received(data)
        if self.is_busy:
            self._stop_waiting()
        elif self._deadline is None:
            self._expect_head()

    def connection_lost(self, exc: BaseException | None) -> None:
        """It has ended."""
        super().connection_lost(exc)
        self._stop_waiting()
        self.closed.set()

    def _expect_head(self) -> None:
        self._deadline = self._loop.call_later(self._head_seconds, self._too_late)

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
