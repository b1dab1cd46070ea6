"""The answer in one piece: byte for byte what aiohttp writes of a response, but for what it says of the connection."""

from __future__ import annotations

import asyncio
import ssl

import orjson
import pytest

from tests.bench.admission_server import Serving, serving
from tests.unit.admission.clients import review
from tests.unit.rules.builders import job

ALLOWED = orjson.dumps(review("/jobs/validate", object=job()))
DENIED = orjson.dumps(review("/jobs/validate", object={}))


async def ask(server: Serving, body: bytes, *, version: str = "1.1", connection: str = "") -> tuple[dict[str, str], bytes, bool]:
    """Headers and body of the answer, and whether the connection is good for another request."""
    tls = ssl.create_default_context(cadata=server.material.bundle.decode())
    reader, writer = await asyncio.open_connection("localhost", server.port, ssl=tls)
    head = f"POST /jobs/validate?timeout=10s HTTP/{version}\r\nHost: x\r\nContent-Type: application/json\r\n"
    message = f"{head}{connection}Content-Length: {len(body)}\r\n\r\n".encode() + body
    writer.write(message)
    status, *lines = (await reader.readuntil(b"\r\n\r\n")).decode().split("\r\n")
    assert status == f"HTTP/{version} 200 OK"
    headers = dict(line.split(": ", 1) for line in lines if line)
    answer = await reader.readexactly(int(headers["Content-Length"]))
    writer.write(message)
    stays = bool(await reader.readline())
    writer.close()
    return headers, answer, stays


@pytest.mark.parametrize("body", [ALLOWED, DENIED])
async def test_the_review_response_is_the_same_for_every_http_version_and_connection_header(body: bytes) -> None:
    async with serving() as server:
        headers, answer, stays = await ask(server, body)
        closing, same_answer, goes = await ask(server, body, connection="Connection: close\r\n")
        old, old_answer, old_goes = await ask(server, body, version="1.0")
        kept, kept_answer, old_stays = await ask(server, body, version="1.0", connection="Connection: keep-alive\r\n")
    assert answer == same_answer == old_answer == kept_answer
    assert (stays, goes, old_goes, old_stays) == (True, False, False, True)
    assert list(headers) == ["Content-Type", "Content-Length", "Date", "Server"]
    assert (closing.pop("Connection"), kept.pop("Connection")) == ("close", "keep-alive")
    for others in (closing, old, kept):
        assert others | {"Date": ""} == headers | {"Date": ""}
    assert len(headers["Date"]) == len("Sun, 06 Nov 1994 08:49:37 GMT")


async def test_a_chunked_review_body_gets_the_same_answer() -> None:
    async with serving() as server:
        _, answer, _ = await ask(server, ALLOWED)
        tls = ssl.create_default_context(cadata=server.material.bundle.decode())
        reader, writer = await asyncio.open_connection("localhost", server.port, ssl=tls)
        head = "POST /jobs/validate HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\n"
        writer.write(head.encode())
        await writer.drain()
        for part in (ALLOWED[:100], ALLOWED[100:]):
            writer.write(f"{len(part):x}\r\n".encode() + part + b"\r\n")
            await writer.drain()
        writer.write(b"0\r\n\r\n")
        assert (await reader.readuntil(b"\r\n\r\n")).startswith(b"HTTP/1.1 200 OK\r\n")
        assert await reader.readexactly(len(answer)) == answer
        writer.close()
