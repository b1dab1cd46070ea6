"""Reads bodies of limited size from another program."""

from __future__ import annotations

from typing import Final

import aiohttp

_CHUNK: Final = 1 << 16


async def read_at_most(content: aiohttp.StreamReader, most: int) -> bytes | None:
    """Return the whole body of a request or a response; None if it is longer than `most` bytes.

    Reading stops at the chunk that exceeds the limit.
    """
    body = bytearray()
    async for chunk in content.iter_chunked(_CHUNK):
        body += chunk
        if len(body) > most:
            return None
    return bytes(body)
