"""The HTTPS server of the webhooks, with limits on the size and time of a request and a plain message for each error."""

from __future__ import annotations

import asyncio
import ssl
import time
from collections.abc import Callable
from typing import Final

import structlog
from aiohttp import web
from aiohttp.hdrs import CONTENT_ENCODING, CONTENT_TYPE
from aiohttp.http_exceptions import HttpProcessingError

from pyroclast.responses import WholeResponse
from pyroclast.runtime.errors import StartFailure
from pyroclast.runtime.listener import Listener
from pyroclast.runtime.tls import common_names
from pyroclast_admission.engine import Engine, Reply, ReviewMetrics

log = structlog.get_logger()

MAX_BODY: Final = 3 * 1024 * 1024
"""Most bytes of a body: an object of at most 1.5 MiB, the limit of etcd, and the previous version of the object."""

READ_SECONDS: Final = 8.0
"""Most seconds for a body to arrive. The API server waits for an answer no longer than 10 s."""

KEEPALIVE_SECONDS: Final = 120.0
"""Seconds for which an idle connection stays open. The API server closes idle connections earlier, so it never loses a request.
"""

LINGER_SECONDS: Final = 0.5
"""Seconds for which the server reads on after a refusal, so that the client gets the answer and not a broken connection."""

HEADER_BYTES: Final = 16 * 1024

JSON: Final = "application/json"


class WebhookServer:
    """Serves an engine over HTTPS, on `port` once it is started.

    `is_stopping` returns whether callers should use another replica from now on. Each answer then closes its connection, because
    the API server could send a request on a connection that ends with the process.
    `client_names`: the common names of client certificates that may call webhooks; empty for every name.
    """

    def __init__(
        self,
        engine: Engine,
        metrics: ReviewMetrics,
        tls: ssl.SSLContext | None,
        is_stopping: Callable[[], bool] = lambda: False,
        *,
        client_names: frozenset[str] = frozenset(),
    ) -> None:
        self._engine, self._metrics, self._is_stopping = engine, metrics, is_stopping
        self._client_names = client_names
        self.listener = Listener(
            self._handle,
            tls=tls,
            keepalive_timeout=KEEPALIVE_SECONDS,
            lingering_time=LINGER_SECONDS,
            max_field_size=HEADER_BYTES,
            auto_decompress=False,
        )
        self.port = 0

    async def start(self, host: str, port: int) -> None:
        """Listen on the address; port 0 selects a free port. StartFailure: the address is in use or cannot be bound."""
        try:
            await self.listener.start(host or None, port)
        except OSError as error:
            raise StartFailure(f"--port: cannot listen on {host}:{port}: {error.strerror or error}") from error
        self.port = self.listener.port

    async def stop(self) -> None:
        """Stop accepting requests, answer those that have arrived, then close the connections."""
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
        if is_stopping or not request.content.at_eof():  # the rest of the body is not read
            response.force_close()
        return response

    async def _reply(self, request: web.BaseRequest, path: str) -> Reply:
        if not self._engine.serves(path):
            return _plain(404, "404 page not found")
        if self._client_names and self._client_names.isdisjoint(_client_names(request)):
            return _plain(403, f"the client certificate must have the common name {' or '.join(sorted(self._client_names))}")
        if request.method != "POST":
            return _plain(405, "only POST is answered here")
        if request.headers.get(CONTENT_ENCODING, "identity") != "identity":  # a few bytes could become very many
            return _plain(400, f"the body must not be compressed (Content-Encoding: {request.headers[CONTENT_ENCODING]})")
        if request.content_type != JSON:
            return _plain(415, f"the body must be {JSON}, not {request.content_type}")
        body = await _read(request)
        return await self._engine.reply(path, body) if body is not None else _plain(413, "request body too large")


def _client_names(request: web.BaseRequest) -> list[str]:
    """Return the common names of the client's certificate, which the handshake has verified."""
    certificate = None if request.transport is None else request.transport.get_extra_info("peercert")
    return common_names(certificate or {})


async def _read(request: web.BaseRequest) -> bytes | None:
    """Read the body; None when it is larger than MAX_BODY. TimeoutError: it took longer than READ_SECONDS to arrive."""
    content = request.content
    if content.is_eof():  # the whole body arrived together with the headers
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
