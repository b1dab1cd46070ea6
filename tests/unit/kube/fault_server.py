"""An HTTP server on a real socket that answers as a script says, faults included.

Each route (`"GET /path"`, `"WATCH /path"` for a GET with watch=true, `"STREAM /path"` for one with sendInitialEvents=true) has a
list of steps; each request takes the next, and the last one serves all that follow. A request to a route without a script is
answered with 404, a list that should come as a stream as by a server that does not do that.
"""

from __future__ import annotations

import asyncio
import json
import socket
import struct
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Any, Self
from urllib.parse import parse_qsl, urlsplit

from pyroclast.kube.basics.observer import Observer
from pyroclast.kube.credentials.config import ClusterConfig
from pyroclast.kube.http.client import Client


@dataclass
class Got:
    """A request that arrived."""

    method: str
    path: str
    query: dict[str, str]
    headers: dict[str, str]
    body: bytes
    writer: asyncio.StreamWriter = field(repr=False)
    target: str = ""

    @property
    def json(self) -> Any:
        return json.loads(self.body)

    @property
    def route(self) -> str:
        if self.query.get("sendInitialEvents") == "true":
            return f"STREAM {self.path}"
        return f"{'WATCH' if self.query.get('watch') == 'true' else self.method} {self.path}"

    def start(self, status: int, headers: dict[str, str]) -> None:
        lines = [f"HTTP/1.1 {status} Scripted", *(f"{name}: {value}" for name, value in headers.items()), "", ""]
        self.writer.write("\r\n".join(lines).encode())


class Observed(Observer):
    """Told by client and informers; requests as (verb, resource, status)."""

    def __init__(self) -> None:
        self.requests: list[tuple[str, str, int]] = []
        self.incidents: list[str] = []
        self.taken = 0

    def request(self, verb: str, resource: str, status: int, seconds: float) -> None:
        self.requests.append((verb, resource, status))

    def events(self, resource: str, count: int) -> None:
        self.taken += count

    def incident(self, resource: str, what: str) -> None:
        self.incidents.append(what)


NOT_FOUND = (404, "NotFound")
UNKNOWN = (422, "Invalid")

Step = Callable[[Got], Awaitable[None]]


def answer(status: int, body: Any = None, **headers: str) -> Step:
    """A whole answer."""
    content = body if isinstance(body, bytes) else json.dumps(body).encode()

    async def step(got: Got) -> None:
        named = {name.replace("_", "-"): value for name, value in headers.items()}
        got.start(status, {"Content-Type": "application/json", "Content-Length": str(len(content)), **named})
        got.writer.write(content)
        await got.writer.drain()

    return step


def status(code: int, reason: str, message: str = "scripted", **headers: str) -> Step:
    """A Status object with that code."""
    body = {"kind": "Status", "apiVersion": "v1", "status": "Failure", "code": code, "reason": reason, "message": message}
    return answer(code, body, **headers)


async def cut(got: Got) -> None:
    """Close the connection without an answer."""
    got.writer.close()


async def reset(got: Got) -> None:
    """Reset the connection without an answer."""
    got.writer.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    got.writer.close()


async def hang(got: Got) -> None:
    """Never answer."""
    await asyncio.Event().wait()


async def garbage(got: Got) -> None:
    """Answer with what is not HTTP."""
    got.writer.write(b"\x00\x01 this is not HTTP\r\n\r\n")
    await got.writer.drain()
    got.writer.close()


async def bad_chunks(got: Got) -> None:
    """Begin an answer whose body is not what its headers say."""
    got.start(200, {"Transfer-Encoding": "chunked"})
    got.writer.write(b"nonsense\r\n")
    await got.writer.drain()
    got.writer.close()


def half(body: Any) -> Step:
    """Send half of the body that was promised, then close."""

    async def step(got: Got) -> None:
        content = json.dumps(body).encode()
        got.start(200, {"Content-Length": str(len(content))})
        got.writer.write(content[: len(content) // 2])
        await got.writer.drain()
        got.writer.close()

    return step


class Watch:
    """A step that streams lines as the test sends them."""

    def __init__(self, *lines: Any) -> None:
        self._queue: asyncio.Queue[bytes | None] = asyncio.Queue()
        self.opened = asyncio.Event()
        self.got: Got | None = None
        self.send(*lines)

    def send(self, *events: Any) -> Self:
        for event in events:
            self._queue.put_nowait(event if isinstance(event, bytes) else json.dumps(event).encode() + b"\n")
        return self

    def end(self) -> Self:
        """End the stream in order."""
        self._queue.put_nowait(None)
        return self

    def cut(self) -> Self:
        """Close the connection in the middle of the stream."""
        self._queue.put_nowait(b"")
        return self

    async def __call__(self, got: Got) -> None:
        got.start(200, {"Content-Type": "application/json", "Transfer-Encoding": "chunked"})
        self.got = got
        self.opened.set()
        while True:
            await got.writer.drain()
            part = await self._queue.get()
            if part == b"":
                got.writer.close()
                return
            content = part or b""
            got.writer.write(f"{len(content):x}\r\n".encode() + content + b"\r\n")
            if part is None:
                return


class FaultServer:
    """An async context manager."""

    def __init__(self) -> None:
        self.requests: list[Got] = []
        self._scripts: dict[str, list[Step]] = {}
        self._server: asyncio.Server | None = None
        self._writers: set[asyncio.StreamWriter] = set()
        self.port = 0

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def client(self, **options: Any) -> Client:
        return Client(ClusterConfig(self.url), **options)

    def on(self, route: str, *steps: Step) -> Self:
        self._scripts[route] = list(steps)
        return self

    def seen(self, route: str) -> list[Got]:
        return [got for got in self.requests if got.route == route]

    async def start(self) -> None:
        self._server = await asyncio.start_server(self._connection, "127.0.0.1", self.port)
        self.port = self._server.sockets[0].getsockname()[1]

    async def stop(self) -> None:
        assert self._server is not None
        self._server.close()
        for writer in list(self._writers):
            writer.close()
        await self._server.wait_closed()

    async def __aenter__(self) -> Self:
        await self.start()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.stop()

    async def _connection(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._writers.add(writer)
        serving = asyncio.current_task()
        try:
            while not writer.is_closing():
                got = await _read(reader, writer)
                if got is None:
                    return
                self.requests.append(got)
                script = self._scripts.get(got.route) or [status(*(UNKNOWN if got.route.startswith("STREAM") else NOT_FOUND))]
                step = script.pop(0) if len(script) > 1 else script[0]
                await _until_gone(step(got), reader)
        except (ConnectionError, asyncio.CancelledError):
            if serving is not None and serving.cancelling():
                return
        finally:
            self._writers.discard(writer)
            writer.close()


async def _until_gone(step: Awaitable[None], reader: asyncio.StreamReader) -> None:
    """Run the step, but no longer than the peer is there."""
    running = asyncio.ensure_future(step)
    while not running.done():
        await asyncio.wait([running], timeout=0.02)
        if reader.at_eof() and not running.done():
            running.cancel()
            raise ConnectionResetError
    running.result()


async def _read(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> Got | None:
    try:
        head = (await reader.readuntil(b"\r\n\r\n")).decode()
    except asyncio.IncompleteReadError:
        return None
    first, *lines = head.rstrip().split("\r\n")
    method, target, _ = first.split(" ")
    headers = {name.lower(): value for name, _, value in (line.partition(": ") for line in lines)}
    body = await reader.readexactly(int(headers.get("content-length", 0)))
    url = urlsplit(target)
    return Got(method, url.path, dict(parse_qsl(url.query)), headers, body, writer, target)
