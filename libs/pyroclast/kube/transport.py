"""One HTTP exchange with the API server: connections, TLS, credentials, and what became of it as an answer or a `KubeError`."""

from __future__ import annotations

import functools
import math
import socket
import ssl
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any, Final

import aiohttp
import orjson
import structlog
from yarl import URL

from pyroclast.kube.config import ClusterConfig
from pyroclast.kube.errors import ApiError, ConnectionFailed

__all__ = ["CONNECT_SECONDS", "Request", "Transport"]

log = structlog.get_logger()

CONNECT_SECONDS: Final = 5.0
IDLE_CONNECTION_SECONDS: Final = 25.0  # less than any server or proxy keeps one, so that we do not write into a closed one
READ_BUFFER: Final = 256 * 1024  # bytes of a watch taken in at one go
NOT_SENT: Final = (aiohttp.ClientConnectorError, aiohttp.ConnectionTimeoutError, aiohttp.InvalidURL)


@dataclass(frozen=True, slots=True)
class Request:
    """One request. `path` and `query` are quoted; `query` is without its question mark."""

    method: str
    path: str
    query: str = ""
    body: bytes | None = None
    headers: Mapping[str, str] = field(default_factory=dict)


class Transport:
    """An async context manager that owns the connections."""

    def __init__(self, config: ClusterConfig, user_agent: str) -> None:
        self._config = config
        self._user_agent = user_agent
        self._base = URL(config.server)
        self._prefix = self._base.raw_path.rstrip("/")
        self._session: aiohttp.ClientSession | None = None
        self._tls: ssl.SSLContext | None = None
        self._away = False
        self._warnings: set[str] = set()

    async def open(self) -> None:
        """Make ready; raises ConfigError when the certificates of the configuration are unusable."""
        self._tls = self._config.ssl_context()
        self._session = aiohttp.ClientSession(
            connector=aiohttp.TCPConnector(
                limit=0,  # the client bounds its requests; watches come on top
                ssl=self._tls or True,
                keepalive_timeout=IDLE_CONNECTION_SECONDS,
                socket_factory=_socket,
            ),
            cookie_jar=aiohttp.DummyCookieJar(),
            read_bufsize=READ_BUFFER,
            auto_decompress=False,
            skip_auto_headers=("Content-Type",),
            headers={"User-Agent": self._user_agent, "Accept": "application/json", "Accept-Encoding": "identity"},
        )

    async def close(self) -> None:
        """Close all connections; harmless when closed already."""
        if self._session is not None:
            await self._session.close()
            self._session = None

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
        if self._session is None:
            raise ConnectionFailed("the client is closed", sent=False, verb=method, path=path)
        url = self._url(path, request.query)
        authorization = await self._config.credentials.authorization()
        try:
            for refreshed in (False, True):
                async with self._session.request(
                    method,
                    url,
                    data=request.body,
                    headers={**request.headers, "Authorization": authorization} if authorization else request.headers,
                    allow_redirects=False,
                    timeout=timeout,
                    server_hostname=self._config.server_name or None,
                    proxy=self._config.proxy or None,
                ) as response:
                    self._answered()
                    if response.status == 401 and authorization and not refreshed:
                        authorization = await self._config.credentials.authorization(refresh=True)
                        continue
                    if response.status >= 300:
                        raise await _error(response, method, path)
                    if "Warning" in response.headers:
                        self._warn(response.headers.getall("Warning"), path)
                    yield response
                    return
        except NOT_SENT as error:
            self._failed(error)
            raise ConnectionFailed(_reason(error), sent=False, verb=method, path=path) from error
        except (aiohttp.ClientError, TimeoutError, OSError) as error:
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
        """Say once, not for each request, that the server cannot be reached; certificates that changed on disk are taken up."""
        if not self._away:
            self._away = True
            log.warning("api_server.away", server=self._config.server, error=_reason(error))
        if self._tls is not None:
            self._config.renew(self._tls)

    def _warn(self, warnings: list[str], path: str) -> None:
        for warning in warnings:
            if warning not in self._warnings and len(self._warnings) < 256:
                self._warnings.add(warning)
                log.warning("api_server.warning", text=warning, path=path)


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
