"""HTTP responses that are written in one piece. Only the length and the time of the head are not computed beforehand.

For a `web.Response`, aiohttp writes the same bytes header by header, which takes several times as long. A program with many small
responses spends a sixth of its work on that.
"""

from __future__ import annotations

import time
from email.utils import formatdate
from functools import lru_cache
from http import HTTPStatus
from typing import Final

from aiohttp import HttpVersion11, web
from aiohttp.abc import AbstractStreamWriter
from aiohttp.http import SERVER_SOFTWARE

LARGEST: Final = 64 * 1024
"""The largest body, in bytes, that is copied behind its head."""

_REASONS: Final = {each.value: each.phrase for each in HTTPStatus}


class WholeResponse(web.StreamResponse):
    """A response with `body`, for a request for which `fits` is true.

    Args:
        status: HTTP status.
        content_type: Media type of the body.
        body: The whole body.
        headers: More lines of the head, each with its end of line.
    """

    def __init__(self, status: int, content_type: str, body: bytes, headers: str = "") -> None:
        super().__init__(status=status)
        self._head = _head(status, content_type, headers)
        self._whole = body

    @staticmethod
    def fits(request: web.BaseRequest, body: bytes) -> bool:
        """Whether a response needs no header about the connection, which stays open, and `body` is at most `LARGEST` bytes."""
        is_usual = request.keep_alive and request.version == HttpVersion11 and request.method != "HEAD"
        return is_usual and len(body) <= LARGEST and request.content.at_eof()

    @property
    def keep_alive(self) -> bool:
        """Always true: the connection stays open."""
        return True

    async def prepare(self, request: web.BaseRequest) -> AbstractStreamWriter:
        """Write the head and the body of the response in one piece."""
        writer, body = request.writer, self._whole
        await writer.write_eof(b"%s%d%s%s" % (self._head, len(body), _rest_of_head(int(time.time())), body))
        return writer

    async def write_eof(self, data: bytes = b"") -> None:
        """Do nothing, because `prepare` has written the whole response."""


@lru_cache(64)
def _head(status: int, content_type: str, headers: str) -> bytes:
    return f"HTTP/1.1 {status} {_REASONS.get(status, '')}\r\n{headers}Content-Type: {content_type}\r\nContent-Length: ".encode()


@lru_cache(1)
def _rest_of_head(now: int) -> bytes:
    return f"\r\nDate: {formatdate(now, usegmt=True)}\r\nServer: {SERVER_SOFTWARE}\r\n\r\n".encode()
