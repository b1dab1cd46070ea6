"""Connections to the API server, and the exchange of one request and one response on a connection.

aiohttp opens, encrypts, keeps and closes connections, and reads from them. Pyroclast does not use aiohttp's ClientSession.
Redirects, cookies, forms, a task for each body and timers for each step would take two thirds of a small request's CPU time.
"""

from __future__ import annotations

import asyncio
import functools
import socket
import ssl
from typing import Any, Final

import aiohttp
import msgspec
from aiohttp.client_reqrep import ClientRequest, ConnectionKey
from multidict import CIMultiDictProxy
from yarl import URL

from pyroclast.kube.basics.errors import ConnectionFailed
from pyroclast.kube.credentials.config import ClusterConfig

CONNECT_SECONDS: Final = 5.0
# shorter than any server or proxy keeps a connection, so that no request is written to a closed connection
IDLE_CONNECTION_SECONDS: Final = 25.0
READ_BUFFER: Final = 256 * 1024  # bytes of a watch that are read at once
FIRST_FINAL: Final = 200  # lower codes are provisional, and another response follows
_TIMEOUT: Final = aiohttp.ClientTimeout(total=None, sock_connect=CONNECT_SECONDS)


class Request(msgspec.Struct, frozen=True, gc=False):
    """One request. `path` and `query` are quoted; `query` has no question mark."""

    method: str
    path: str
    query: str = ""
    body: bytes | None = None
    content_type: str = ""


class Connections:
    """Connections with the same certificates. The last request closes the connections once newer certificates replace these."""

    def __init__(self, config: ClusterConfig, tls: ssl.SSLContext | None, user_agent: str) -> None:
        url = URL(config.server)
        self._connector = aiohttp.TCPConnector(
            limit=0,  # the client limits its requests; watches are not limited
            ssl=tls or True,
            keepalive_timeout=IDLE_CONNECTION_SECONDS,
            socket_factory=_socket,
        )
        self._server = _Server(
            "GET",
            url,
            loop=asyncio.get_running_loop(),
            server_hostname=config.server_name or None,
            proxy=URL(config.proxy) if config.proxy else None,
        )
        is_relayed = (
            self._server.proxy is not None and not self._server.is_ssl()
        )  # otherwise the proxy, if there is one, opens a tunnel
        self._prefix = (str(url.origin()) if is_relayed else "") + url.raw_path.rstrip("/")
        self._about_us = {
            "Host": self._server.headers["Host"],
            "User-Agent": user_agent,
            "Accept": "application/json",
            "Accept-Encoding": "identity",
        }
        self._impersonation = config.impersonation
        self._headers = ("", "")
        self._users = 0
        self._retired = False

    async def connect(self) -> aiohttp.connector.Connection:
        """Return a connection for one request; the caller must call `done` at its end."""
        self._users += 1
        try:
            return await self._connector.connect(self._server, [], _TIMEOUT)
        except BaseException:
            await self.done()
            raise

    async def done(self) -> None:
        """Report that a request no longer needs its connection."""
        self._users -= 1
        if self._retired and not self._users:
            await self._connector.close()

    async def retire(self) -> None:
        """Accept no new request, and close each connection as soon as its running request has ended."""
        self._retired = True
        if not self._users:
            await self._connector.close()

    async def close(self) -> None:
        """Close all connections; running requests fail."""
        await self._connector.close()

    def message(self, request: Request, authorization: str) -> bytes:
        """Return the bytes to send for `request`."""
        target = f"{self._prefix}{request.path}?{request.query}" if request.query else self._prefix + request.path
        head = f"{request.method} {target} HTTP/1.1\r\n{self._always(authorization)}"
        body = request.body
        if body is None:
            return f"{head}\r\n".encode() if request.method == "GET" else f"{head}Content-Length: 0\r\n\r\n".encode()
        return f"{head}Content-Type: {request.content_type}\r\nContent-Length: {len(body)}\r\n\r\n".encode() + body

    def _always(self, authorization: str) -> str:
        """Return the headers that all requests share."""
        known, text = self._headers
        if text and known == authorization:
            return text
        proxied = {name: value for name, value in self._server.headers.items() if name.lower() == "proxy-authorization"}
        named = self._about_us | proxied | ({"Authorization": authorization} if authorization else {})
        headers = [*named.items(), *self._impersonation]
        if broken := [name for name, value in headers if not value.isprintable()]:
            raise ConnectionFailed(f"the value of the header {broken[0]} is not one line of text", sent=False)
        text = "".join(f"{name}: {value}\r\n" for name, value in headers)
        self._headers = authorization, text
        return text


class Exchange:
    """One request and its response.

    `is_tried`: whether a connection was requested. `is_sent`: whether a part of the request may have reached the server. `status,
    headers`: those of the response, once the response has begun.
    """

    __slots__ = ("_connection", "_connections", "content", "headers", "is_sent", "is_tried", "status")

    content: aiohttp.StreamReader
    headers: CIMultiDictProxy[str]

    def __init__(self) -> None:
        self.is_tried = self.is_sent = False
        self.status = 0
        self._connections: Connections | None = None
        self._connection: aiohttp.connector.Connection | None = None

    async def begin(self, connections: Connections, request: Request, authorization: str, silence: float = 0.0) -> None:
        """Send a request and wait until the response begins. `silence`: the longest time without a byte, in seconds; 0 for no
        limit.

        Raises the errors of aiohttp when a connection cannot be opened or breaks.
        """
        self.is_tried = True
        self.is_sent = False
        self._connection = await connections.connect()
        self._connections = connections
        protocol, transport = self._connection.protocol, self._connection.transport
        if protocol is None or transport is None or transport.is_closing():
            raise aiohttp.ClientConnectionResetError("the connection was closed")
        protocol.set_response_params(
            read_until_eof=True, auto_decompress=False, read_timeout=silence or None, read_bufsize=READ_BUFFER
        )
        message = connections.message(request, authorization)
        self.is_sent = True
        transport.write(message)
        protocol.start_timeout()
        while True:
            answer, self.content = await protocol.read()
            if answer.code >= FIRST_FINAL:
                break
        self.status, self.headers = answer.code, answer.headers

    async def read(self) -> bytes:
        """Return the whole body of the response."""
        return self.content.read_nowait() if self.content.is_eof() else await self.content.read()

    async def end(self) -> None:
        """Release the connection if the whole response was read, else close the connection. A second call has no effect."""
        if self._connection is None or self._connections is None:
            return
        connection, connections = self._connection, self._connections
        self._connection = None
        transport = connection.transport
        if self.status and self.content.is_eof() and transport is not None and not transport.get_write_buffer_size():
            connection.release()
        else:  # unread or unsent bytes would become a part of the next exchange
            connection.close()
        self.status = 0
        await connections.done()


class _Server(ClientRequest):
    """The destination of aiohttp's connections: the server, and the proxy in front of it."""

    @functools.cached_property
    def connection_key(self) -> ConnectionKey:
        """The key under which connections are kept, the same for all requests."""
        return super().connection_key


def _socket(address: tuple[Any, ...]) -> socket.socket:
    """Return a socket that notices within half a minute that its peer is gone, even while nothing is sent."""
    family, kind, protocol, _, _ = address
    sock = socket.socket(family, kind, protocol)
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    for option, value in (("TCP_KEEPIDLE", 15), ("TCP_KEEPINTVL", 5), ("TCP_KEEPCNT", 3), ("TCP_USER_TIMEOUT", 30_000)):
        if hasattr(socket, option):  # Linux; other systems use their defaults
            sock.setsockopt(socket.IPPROTO_TCP, getattr(socket, option), value)
    return sock
