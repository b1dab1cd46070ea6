"""Requests to the API server over HTTP: certificates, credentials, warnings, and what became of them: an answer or an error."""

from __future__ import annotations

import asyncio
import re
import ssl
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Final

import aiohttp
import orjson
import structlog
from aiohttp.http_exceptions import HttpProcessingError

from pyroclast.kube.basics.errors import ApiError, ConnectionFailed
from pyroclast.kube.basics.server_clock import ServerClock
from pyroclast.kube.credentials.config import ClusterConfig, ConfigError
from pyroclast.kube.http.connections import Connections, Exchange, Request

__all__ = ["BROKEN", "Transport"]

log = structlog.get_logger()

LOOK_SECONDS: Final = 10.0  # between two looks at certificates on disk: they are replaced days before the old ones end
WARNING: Final = re.compile(r'299 \S+ "((?:[^"\\]|\\.)*)"')  # RFC 9111, 5.5: a header may hold several
BROKEN: Final = (aiohttp.ClientError, HttpProcessingError, OSError, RuntimeError)
"""What comes out of aiohttp when a connection breaks. RuntimeError is uvloop's word for a socket or transport that is gone, or
whose number another has by now, and aiohttp's for reading on after that."""


class Transport:
    """An async context manager that owns the connections. `on_warning` is told each text that the server warns of, once."""

    def __init__(self, config: ClusterConfig, user_agent: str, on_warning: Callable[[str], None] | None = None) -> None:
        self._config = config
        self._on_warning = on_warning or self._log_warning
        self._user_agent = user_agent
        self._connections: Connections | None = None
        self._stamp: tuple[object, ...] = ()
        self._looked = 0.0
        self._away = False
        self.outages = 0
        """How often the server began to be out of reach."""
        self.clock = ServerClock()
        self._warnings: set[str] = set()

    async def open(self) -> None:
        """Make ready; raises ConfigError when the certificates of the configuration are unusable."""
        self._stamp = self._config.stamp
        self._connections = self._connect(self._config.ssl_context())

    async def close(self) -> None:
        """Close all connections; harmless when closed already."""
        if self._connections is not None:
            await self._connections.close()
            self._connections = None

    def _connect(self, tls: ssl.SSLContext | None) -> Connections:
        return Connections(self._config, tls, self._user_agent)

    async def send(self, request: Request, seconds: float) -> tuple[int, bytes]:
        """Send a request and read the whole answer within so many seconds; the status and the body.

        Raises:
            ApiError: the server answered with a status of 300 or more.
            ConnectionFailed: it did not answer.
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
        """Send a request; gives the status and the body as it comes. Raises as `send` does, also while the body is read.

        `silence` is the number of seconds without a byte after which the server counts as gone; 0 for never.
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
        """Have `request` answered with success; the body is still to be read."""
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
        """What to raise for what aiohttp raised."""
        if isinstance(error, RuntimeError):  # nobody else would see what it was
            log.warning(
                "api_server.connection_broken", method=request.method, path=request.path, error=repr(error), exc_info=error
            )
        elif exchange.is_tried and not exchange.is_sent:
            self._failed(error)
            self._looked = 0.0  # perhaps for want of certificates that have come
        return ConnectionFailed(_reason(error), sent=exchange.is_sent, verb=request.method, path=request.path)

    def _answered(self) -> None:
        if self._away:
            self._away = False
            log.info("api_server.back", server=self._config.server)

    def _failed(self, error: Exception) -> None:
        """Say once, not for each request, that the server cannot be reached."""
        if not self._away:
            self._away = True
            self.outages += 1
            log.warning("api_server.away", server=self._config.server, error=_reason(error))

    def _may_have_others(self, authorization: str, refused: Connections) -> bool:
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


async def _error(exchange: Exchange, request: Request) -> ApiError:
    body = await exchange.read()
    try:
        status = orjson.loads(body)
    except orjson.JSONDecodeError:
        status = {"message": body.decode("utf-8", "replace")[:500].strip()}
    return ApiError.from_status(
        exchange.status,
        status if isinstance(status, dict) else {},
        retry_after=_seconds(exchange.headers.get("Retry-After", "")),
        verb=request.method,
        path=request.path,
    )


def _seconds(retry_after: str) -> float | None:
    """The header in seconds; API servers do not send the form with a date."""
    return float(retry_after) if retry_after.isdecimal() else None


def _reason(error: Exception) -> str:
    if isinstance(error, TimeoutError):
        return "no answer in time"
    return str(error) or type(error).__name__
