"""The HTTPS server of the webhooks: bounds on what it reads, and nothing but clear answers."""

from __future__ import annotations

import asyncio
import ssl
import time
from collections.abc import Callable
from typing import Final

import structlog
from aiohttp import web
from aiohttp.hdrs import CONTENT_TYPE
from aiohttp.http_exceptions import HttpProcessingError

from pyroclast.responses import WholeResponse
from pyroclast.runtime.errors import StartFailure
from pyroclast.runtime.listener import Listener
from pyroclast_admission.engine import Engine, Reply
from pyroclast_admission.metrics import ReviewMetrics

__all__ = ["WebhookServer"]

log = structlog.get_logger()

MAX_BODY: Final = 3 * 1024 * 1024
"""Bytes: an object of at most 1.5 MiB, which is what etcd keeps, and the one that it replaces."""

READ_SECONDS: Final = 8.0
"""How long a body may take to arrive; the API server waits for an answer no longer than 10 s."""

KEEPALIVE_SECONDS: Final = 120.0
"""Longer than the API server keeps a connection that it does not use, so that it is never closed under its hands."""

LINGER_SECONDS: Final = 0.5
"""How long what a refused client still sends is taken in, so that it reads the answer instead of a broken connection."""

HEADER_BYTES: Final = 16 * 1024

JSON: Final = "application/json"


class WebhookServer:
    """Serves an engine. `port`: where, once it is started; `listener`: its connections.

    `is_stopping`: whether callers should ask another replica from now on. Each answer then closes its connection: an API server
    that goes on to use one would lose the request that is on its way when the process ends.
    """

    def __init__(
        self, engine: Engine, metrics: ReviewMetrics, tls: ssl.SSLContext | None, is_stopping: Callable[[], bool] = lambda: False
    ) -> None:
        self._engine, self._metrics, self._is_stopping = engine, metrics, is_stopping
        self.listener = Listener(
            self._handle,
            tls=tls,
            keepalive_timeout=KEEPALIVE_SECONDS,
            lingering_time=LINGER_SECONDS,
            max_field_size=HEADER_BYTES,
        )
        self.port = 0

    async def start(self, host: str, port: int) -> None:
        """Listen; port 0 takes a free one.

        Raises:
            StartFailure: the address cannot be listened on.
        """
        try:
            await self.listener.start(host or None, port)
        except OSError as error:
            raise StartFailure(f"--port: cannot listen on {host}:{port}: {error.strerror or error}") from error
        self.port = self.listener.port

    async def stop(self) -> None:
        """Take nothing new, answer what has been asked, then close."""
        try:
            await self.listener.stop()
        finally:
            self._engine.close()

    async def _handle(self, request: web.BaseRequest) -> web.StreamResponse:
        started = time.perf_counter()
        path = request.path
        try:
            reply = await self._reply(request, path)
        except TimeoutError:
            reply = _plain(408, f"the body did not arrive within {READ_SECONDS:.0f} seconds")
        except HttpProcessingError as error:
            reply = _plain(400, f"the request cannot be read: {error.message}")
        except (web.HTTPException, ConnectionError):
            raise
        except Exception:
            log.exception("review.failed", path=path)
            reply = _plain(500, "the review failed; the log of the admission service says why")
        if self._engine.serves(path):
            self._metrics.took(path, time.perf_counter() - started)
        is_stopping = self._is_stopping()
        if not is_stopping and WholeResponse.fits(request, reply.body):
            return WholeResponse(reply.status, reply.content_type, reply.body)
        response = web.Response(status=reply.status, body=reply.body, headers={CONTENT_TYPE: reply.content_type})
        if is_stopping or not request.content.at_eof():  # what is left of the body is not worth reading
            response.force_close()
        return response

    async def _reply(self, request: web.BaseRequest, path: str) -> Reply:
        if not self._engine.serves(path):
            return _plain(404, "404 page not found")
        if request.method != "POST":
            return _plain(405, "only POST is answered here")
        if request.content_type != JSON:
            return _plain(415, f"the body must be {JSON}, not {request.content_type}")
        body = await _read(request)
        return await self._engine.reply(path, body) if body is not None else _plain(413, "request body too large")


async def _read(request: web.BaseRequest) -> bytes | None:
    """The body; None when there is more than is taken.

    Raises:
        TimeoutError: it takes too long to arrive.
    """
    content = request.content
    if content.is_eof():  # all of it came with the head
        return content.read_nowait()
    if (request.content_length or 0) > MAX_BODY:
        return None
    parts, size = [], 0
    async with asyncio.timeout(READ_SECONDS):
        while part := await content.readany():
            size += len(part)
            if size > MAX_BODY:
                return None
            parts.append(part)
    return b"".join(parts)


def _plain(status: int, text: str) -> Reply:
    return Reply(status, f"{text}\n".encode(), "text/plain; charset=utf-8")
