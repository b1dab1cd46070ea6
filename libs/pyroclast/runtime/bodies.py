"""Reading what another program sends, however much that is."""

from __future__ import annotations

from typing import Final

import aiohttp

__all__ = ["read_at_most"]

_CHUNK: Final = 1 << 16


async def read_at_most(content: aiohttp.StreamReader, most: int) -> bytes | None:
    """The whole body of a request or a response; None if it has more than `most` bytes, of which no more are read then."""
    body = bytearray()
    async for chunk in content.iter_chunked(_CHUNK):
        body += chunk
        if len(body) > most:
            return None
    return bytes(body)
