"""A client that costs next to nothing, so that a bench measures the server: HTTP/1.1 on kept TLS connections, nothing decoded."""

from __future__ import annotations

import asyncio
import ssl
from typing import Self
from urllib.parse import urlsplit

READ_LIMIT = 1 << 22  # bytes of one event or head


def message(method: str, path: str, body: bytes = b"", content_type: str = "application/json") -> bytes:
    """A request, ready to be sent."""
    head = f"{method} {path} HTTP/1.1\r\nHost: localhost\r\nContent-Type: {content_type}\r\nContent-Length: {len(body)}\r\n\r\n"
    return head.encode() + body


class Connection:
    """One connection; a request is sent when the answer to the last one has been read."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader, self._writer = reader, writer

    @classmethod
    async def open(cls, url: str, tls: ssl.SSLContext) -> Self:
        """Connect to the server at `url`."""
        parts = urlsplit(url)
        return cls(*await asyncio.open_connection(parts.hostname, parts.port, ssl=tls, limit=READ_LIMIT))

    async def ask(self, request: bytes) -> bytes:
        """The body of the answer.

        Raises:
            AssertionError: the answer is a failure; the text is its body.
        """
        self._writer.write(request)
        head = await self._head()
        length = int(head.partition(b"content-length: ")[2].partition(b"\r\n")[0])
        body = await self._reader.readexactly(length)
        if not head.startswith(b"http/1.1 2"):
            raise AssertionError(body.decode())
        return body

    async def _head(self) -> bytes:
        return (await self._reader.readuntil(b"\r\n\r\n")).lower()

    def close(self) -> None:
        """Hang up."""
        self._writer.close()
