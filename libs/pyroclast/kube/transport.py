"""One HTTP exchange with the API server: connections, TLS, credentials, and what became of it as an answer or a `KubeError`."""

from __future__ import annotations

import asyncio
import functools
import math
import re
import socket
import ssl
import time
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any, Final

import aiohttp
import orjson
import structlog
from aiohttp.http_exceptions import HttpProcessingError
from yarl import URL

from pyroclast.kube.config import ClusterConfig, ConfigError
from pyroclast.kube.errors import ApiError, ConnectionFailed
from pyroclast.kube.server_clock import ServerClock

__all__ = ["BROKEN", "CONNECT_SECONDS", "Request", "Transport"]

log = structlog.get_logger()

CONNECT_SECONDS: Final = 5.0
IDLE_CONNECTION_SECONDS: Final = 25.0  # less than any server or proxy keeps one, so that we do not write into a closed one
LOOK_SECONDS: Final = 10.0  # between two looks at certificates on disk: they are replaced days before the old ones end
READ_BUFFER: Final = 256 * 1024  # bytes of a watch taken in at one go
WARNING: Final = re.compile(r'299 \S+ "((?:[^"\\]|\\.)*)"')  # RFC 9111, 5.5: a header may hold several
NOT_SENT: Final = (aiohttp.ClientConnectorError, aiohttp.ConnectionTimeoutError, aiohttp.InvalidURL)
BROKEN: Final = (aiohttp.ClientError, HttpProcessingError, OSError, RuntimeError)
"""What comes out of aiohttp when a connection breaks. RuntimeError is uvloop's word for a socket or transport that is gone, or
whose number another has by now, and aiohttp's for reading on after that."""


@dataclass(frozen=True, slots=True)
class Request:
    """One request. `path` and `query` are quoted; `query` is without its question mark."""

    method: str
    path: str
    query: str = ""
    body: bytes | None = None
    headers: Mapping[str, str] = field(default_factory=dict)


class Transport:
    """An async context manager that owns the connections. `on_warning` is told each text that the server warns of, once."""

    def __init__(self, config: ClusterConfig, user_agent: str, on_warning: Callable[[str], None] | None = None) -> None:
        self._config = config
        self._on_warning = on_warning or self._log_warning
        self._user_agent = user_agent
        self._base = URL(config.server)
        self._prefix = self._base.raw_path.rstrip("/")
        self._connections: _Connections | None = None
        self._stamp: tuple[object, ...] = ()
        self._looked = 0.0
        self._away = False
        self.clock = ServerClock()
        self._warnings: set[str] = set()

    async def open(self) -> None:
        """Make ready; raises ConfigError when the certificates of the configuration are unusable."""
        self._stamp = self._config.stamp
        self._connections = self._connect(self._config.ssl_context())

    async def close(self) -> None:
        """Close all connections; harmless when closed already."""
        if self._connections is not None:
            await self._connections.session.close()
            self._connections = None

    def _connect(self, tls: ssl.SSLContext | None) -> _Connections:
        session = aiohttp.ClientSession(
            connector=aiohttp.TCPConnector(
                limit=0,  # the client bounds its requests; watches come on top
                ssl=tls or True,
                keepalive_timeout=IDLE_CONNECTION_SECONDS,
                socket_factory=_socket,
            ),
            cookie_jar=aiohttp.DummyCookieJar(),
            read_bufsize=READ_BUFFER,
            auto_decompress=False,
            skip_auto_headers=("Content-Type",),
            headers={"User-Agent": self._user_agent, "Accept": "application/json", "Accept-Encoding": "identity"},
        )
        # The session would send a DELETE or PUT again by itself, and nobody would know that its first answer was lost.
        session._retry_connection = False
        return _Connections(session)

    async def send(self, request: Request, seconds: float) -> tuple[int, bytes]:
        """Send a request and read the whole answer within so many seconds; the status and the body.

        Raises:
            ApiError: the server answered with a status of 300 or more.
            ConnectionFailed: it did not answer.
        """
        async with self.exchange(request, _timeout(math.floor(seconds * 8) / 8 or seconds)) as response:
            return response.status, await response.read()

    @asynccontextmanager
    async def exchange(
        self,
        request: Request,
        timeout: aiohttp.ClientTimeout,  # noqa: ASYNC109 - it bounds each read of a stream, not this call
    ) -> AsyncIterator[aiohttp.ClientResponse]:
        """Send a request; gives the response, whose body is still to be read. Raises as `send` does, also while it is read."""
        method, path = request.method, request.path
        url = self._url(path, request.query)
        refused: str | None = None
        try:
            for again in (False, True):
                async with asyncio.timeout(timeout.total):
                    authorization = await self._config.credentials.authorization(refused=refused)
                await self._renew(at_once=again)
                if self._connections is None:
                    raise ConnectionFailed("the client is closed", sent=False, verb=method, path=path)
                connections = self._connections
                async with (
                    connections.used() as session,
                    session.request(
                        method,
                        url,
                        data=request.body,
                        headers={**request.headers, "Authorization": authorization} if authorization else request.headers,
                        allow_redirects=False,
                        timeout=timeout,
                        server_hostname=self._config.server_name or None,
                        proxy=self._config.proxy or None,
                    ) as response,
                ):
                    self._answered()
                    self.clock.answered(response.headers.get("Date", ""))
                    if response.status == 401 and not again and self._may_have_others(authorization, connections):
                        refused = authorization
                        continue
                    if response.status >= 300:
                        raise await _error(response, method, path)
                    if "Warning" in response.headers:
                        self._warn(response.headers.getall("Warning"))
                    yield response
                    return
        except NOT_SENT as error:
            self._failed(error)
            self._looked = 0.0  # perhaps for want of certificates that have come
            raise ConnectionFailed(_reason(error), sent=False, verb=method, path=path) from error
        except BROKEN as error:
            if isinstance(error, RuntimeError):  # nobody else would see what it was
                log.warning("api_server.connection_broken", method=method, path=path, error=repr(error), exc_info=error)
            raise ConnectionFailed(_reason(error), verb=method, path=path) from error

    def _url(self, path: str, query: str) -> URL:
        base = self._base
        return URL.build(
            scheme=base.scheme,
            host=base.raw_host or "",
            port=base.port,
            path=self._prefix + path,
            query_string=query,
            encoded=True,
        )

    def _answered(self) -> None:
        if self._away:
            self._away = False
            log.info("api_server.back", server=self._config.server)

    def _failed(self, error: Exception) -> None:
        """Say once, not for each request, that the server cannot be reached."""
        if not self._away:
            self._away = True
            log.warning("api_server.away", server=self._config.server, error=_reason(error))

    def _may_have_others(self, authorization: str, refused: _Connections) -> bool:
        """Whether it is worth a second try with other credentials, when these were refused."""
        credentials = self._config.credentials
        if authorization or credentials.identity is not None:
            return True
        return refused is not self._connections or self._config.stamp != self._stamp

    async def _renew(self, *, at_once: bool) -> None:
        """Take up certificates that were replaced, for new connections: old ones go on being who they were."""
        now = time.monotonic()
        given = self._config.credentials.identity
        if not at_once and now < self._looked + LOOK_SECONDS and (not self._stamp or given is self._stamp[-1]):
            return
        self._looked = now
        stamp = self._config.stamp
        if stamp == self._stamp or self._connections is None:
            return
        try:
            fresh = self._connect(self._config.ssl_context())
        except ConfigError as error:  # half of them is there: next time
            log.warning("api_server.certificates", error=str(error))
            return
        old, self._connections, self._stamp = self._connections, fresh, stamp
        log.info("api_server.certificates_renewed", server=self._config.server)
        await old.retire()

    def _warn(self, headers: list[str]) -> None:
        for header in headers:
            for found in WARNING.finditer(header):
                text = re.sub(r"\\(.)", r"\1", found[1])
                if text not in self._warnings and len(self._warnings) < 256:
                    self._warnings.add(text)
                    self._on_warning(text)

    def _log_warning(self, text: str) -> None:
        log.warning("api_server.warning", text=text, server=self._config.server)


class _Connections:
    """Connections made with the same certificates, closed when others have taken their place and no request needs them."""

    def __init__(self, session: aiohttp.ClientSession) -> None:
        self.session = session
        self._users = 0
        self._retired = False

    @asynccontextmanager
    async def used(self) -> AsyncIterator[aiohttp.ClientSession]:
        """Use them for one request."""
        self._users += 1
        try:
            yield self.session
        finally:
            self._users -= 1
            if self._retired and not self._users:
                await self.session.close()

    async def retire(self) -> None:
        """No new request will come."""
        self._retired = True
        if not self._users:
            await self.session.close()


async def _error(response: aiohttp.ClientResponse, method: str, path: str) -> ApiError:
    body: Any = await response.read()
    try:
        status = orjson.loads(body)
    except orjson.JSONDecodeError:
        status = {"message": body.decode("utf-8", "replace")[:500].strip()}
    return ApiError.from_status(
        response.status,
        status if isinstance(status, dict) else {},
        retry_after=_seconds(response.headers.get("Retry-After", "")),
        verb=method,
        path=path,
    )


@functools.lru_cache(256)
def _timeout(seconds: float) -> aiohttp.ClientTimeout:
    """Kept, because making one costs as much as encoding a small object."""
    return aiohttp.ClientTimeout(total=seconds, sock_connect=min(CONNECT_SECONDS, seconds))


def _seconds(retry_after: str) -> float | None:
    """The header in seconds; API servers do not send the form with a date."""
    return float(retry_after) if retry_after.isdecimal() else None


def _reason(error: Exception) -> str:
    if isinstance(error, TimeoutError):
        return "no answer in time"
    return str(error) or type(error).__name__


def _socket(address: tuple[Any, ...]) -> socket.socket:
    """A socket that notices within half a minute that its peer is gone, also while nothing is sent."""
    family, kind, protocol, _, _ = address
    sock = socket.socket(family, kind, protocol)
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    for option, value in (("TCP_KEEPIDLE", 15), ("TCP_KEEPINTVL", 5), ("TCP_KEEPCNT", 3), ("TCP_USER_TIMEOUT", 30_000)):
        if hasattr(socket, option):  # Linux; elsewhere the defaults of the system serve
            sock.setsockopt(socket.IPPROTO_TCP, getattr(socket, option), value)
    return sock
