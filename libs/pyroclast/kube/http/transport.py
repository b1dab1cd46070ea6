"""Requests to the API server over HTTP: certificates, credentials, warnings, its clock, and the results as responses or errors.

Deadlines are computed from timestamps of the API server, and one replica continues the work of another. So all replicas use the
clock of the API server, from which the local clock may differ by minutes. The offset follows from the dates of the responses.
"""

from __future__ import annotations

import asyncio
import re
import ssl
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from email.utils import parsedate_to_datetime
from typing import Final

import aiohttp
import orjson
import structlog
from aiohttp.http_exceptions import HttpProcessingError

from pyroclast.kube.basics.errors import ApiError, ConnectionFailed
from pyroclast.kube.credentials.config import ClusterConfig, ConfigError
from pyroclast.kube.http.connections import Connections, Exchange, Request

log = structlog.get_logger()


_TOLERANCE: Final = 3.0
"""Seconds by which the clocks may differ without a correction: dates have whole seconds, and a response takes time."""

_PERIOD: Final = 10.0
"""Seconds between two readings of a date, because parsing a date costs as much as a small request."""


class ServerClock:
    """The local clock, corrected by its difference from the API server's clock."""

    def __init__(self, now: Callable[[], float] = time.time, clock: Callable[[], float] = time.monotonic) -> None:
        self._now, self._clock = now, clock
        self._offset = 0.0
        self._next = float("-inf")

    def now(self) -> float:
        """Return seconds since the epoch by the clock of the API server."""
        return self._now() + self._offset

    def answered(self, date: str) -> None:
        """Take the `Date` header of a response that has just arrived into account; `date` is empty without the header."""
        if not date or self._clock() < self._next:
            return
        self._next = self._clock() + _PERIOD
        try:
            sample = parsedate_to_datetime(date).timestamp() + 0.5 - self._now()
        except ValueError:
            return  # this is no date of an API server: the correction stays
        if abs(sample - self._offset) <= _TOLERANCE:
            return
        self._offset = sample if abs(sample) > _TOLERANCE else 0.0
        log.warning("api_server.clock_differs", seconds=round(self._offset, 1))


# seconds between two checks of certificates on disk, which are replaced days before the old ones expire
LOOK_SECONDS: Final = 10.0
WARNING: Final = re.compile(r'299 \S+ "((?:[^"\\]|\\.)*)"')  # RFC 9111, 5.5: a header may contain several warnings
BROKEN: Final = (aiohttp.ClientError, HttpProcessingError, OSError, RuntimeError)
"""The errors of aiohttp when a connection breaks.

uvloop raises RuntimeError for a closed socket or transport, or when another socket already has its number; aiohttp raises
RuntimeError when reading continues after an error.
"""


class Transport:
    """Owns the connections to the API server. `on_warning` is called once for each text of a server's warning."""

    def __init__(self, config: ClusterConfig, user_agent: str, on_warning: Callable[[str], None] | None = None) -> None:
        self._config = config
        self._on_warning = on_warning or (lambda text: log.warning("api_server.warning", text=text, server=config.server))
        self._user_agent = user_agent
        self._connections: Connections | None = None
        self._stamp: tuple[object, ...] = ()
        self._looked = 0.0
        self._away = False
        self.outages = 0
        """How many times the server has become unreachable."""
        self.clock = ServerClock()
        self._warnings: set[str] = set()

    async def open(self) -> None:
        """Open the transport and load the certificates; raises ConfigError when the certificates of the configuration are
        invalid.
        """
        self._stamp = self._config.stamp
        self._connections = self._connect(self._config.ssl_context())

    async def close(self) -> None:
        """Close all connections; a second call has no effect."""
        if self._connections is not None:
            await self._connections.close()
            self._connections = None

    def _connect(self, tls: ssl.SSLContext | None) -> Connections:
        return Connections(self._config, tls, self._user_agent)

    async def send(self, request: Request, seconds: float) -> tuple[int, bytes]:
        """Send a request and read the whole response within `seconds`; return its status and body.

        Raises ApiError: the server answered with a status of 300 or more; ConnectionFailed: the server did not answer.
        """
        exchange = Exchange()
        try:
            async with asyncio.timeout(seconds):
                await self._exchange(exchange, request)
                return exchange.status, await exchange.read()
        except BROKEN as error:
            raise self._broken(error, exchange, request) from error
        finally:
            await exchange.end()

    @asynccontextmanager
    async def stream(self, request: Request, silence: float) -> AsyncIterator[tuple[int, aiohttp.StreamReader]]:
        """Send a request; yield the status and the body as a stream. Raises like `send`, also while the body is read.

        `silence`: seconds without a byte after which the server counts as unreachable; 0 for no limit.
        """
        exchange = Exchange()
        try:
            await self._exchange(exchange, request, silence)
            yield exchange.status, exchange.content
        except BROKEN as error:
            raise self._broken(error, exchange, request) from error
        finally:
            await exchange.end()

    async def _exchange(self, exchange: Exchange, request: Request, silence: float = 0.0) -> None:
        """Send `request` until the server answers with success; the body is read later."""
        refused: str | None = None
        for again in (False, True):
            authorization = await self._config.credentials.authorization(refused=refused)
            await self._renew(at_once=again)
            connections = self._connections
            if connections is None:
                raise ConnectionFailed("the client is closed", sent=False, verb=request.method, path=request.path)
            await exchange.begin(connections, request, authorization, silence)
            self._answered()
            self.clock.answered(exchange.headers.get("Date", ""))
            if exchange.status == 401 and not again and self._may_have_others(authorization, connections):
                refused = authorization
                await exchange.end()
                continue
            break
        if exchange.status >= 300:
            raise await _error(exchange, request)
        if "Warning" in exchange.headers:
            self._warn(exchange.headers.getall("Warning"))

    def _broken(self, error: Exception, exchange: Exchange, request: Request) -> ConnectionFailed:
        """Return the exception to raise in place of aiohttp's exception."""
        if isinstance(error, RuntimeError):  # nothing else would show this error
            log.warning(
                "api_server.connection_broken", method=request.method, path=request.path, error=repr(error), exc_info=error
            )
        elif exchange.is_tried and not exchange.is_sent:
            self._failed(error)
            self._looked = 0.0  # a renewed certificate may help
        return ConnectionFailed(_reason(error), sent=exchange.is_sent, verb=request.method, path=request.path)

    def _answered(self) -> None:
        if self._away:
            self._away = False
            log.info("api_server.back", server=self._config.server)

    def _failed(self, error: Exception) -> None:
        """Log once, not for each request, that the server is unreachable."""
        if not self._away:
            self._away = True
            self.outages += 1
            log.warning("api_server.away", server=self._config.server, error=_reason(error))

    def _may_have_others(self, authorization: str, refused: Connections) -> bool:
        """Whether a second attempt with other credentials makes sense after the server refused the present ones."""
        credentials = self._config.credentials
        if authorization or credentials.identity is not None:
            return True
        return refused is not self._connections or self._config.stamp != self._stamp

    async def _renew(self, *, at_once: bool) -> None:
        """Use replaced certificates for new connections; existing connections keep their certificates."""
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
        except ConfigError as error:  # only one of two files was replaced so far: try again later
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


async def _error(exchange: Exchange, request: Request) -> ApiError:
    body, pause = await exchange.read(), exchange.headers.get("Retry-After", "")
    try:
        status = orjson.loads(body)
    except orjson.JSONDecodeError:
        status = {"message": body.decode("utf-8", "replace")[:500].strip()}
    return ApiError.from_status(
        exchange.status,
        status if isinstance(status, dict) else {},
        retry_after=float(pause) if pause.isdecimal() else None,  # API servers do not send the form with a date
        verb=request.method,
        path=request.path,
    )


def _reason(error: Exception) -> str:
    if isinstance(error, TimeoutError):
        return "no answer in time"
    return str(error) or type(error).__name__
