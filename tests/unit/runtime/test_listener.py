"""Slow and many clients: each has so long to say what it wants, and others get their answers meanwhile."""

from __future__ import annotations

import asyncio
import errno
import resource
import socket
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from datetime import UTC, datetime

import pytest
import uvloop
from aiohttp import web

from pyroclast.runtime import listener as listener_module
from pyroclast.runtime.listener import Listener
from pyroclast.runtime.tls import ServingTls
from pyroclast_admission.certificates.plan import Step
from pyroclast_admission.certificates.steps import carry_out
from tests.bench.admission_server import policy

MATERIAL = carry_out(Step.START_OVER, None, policy(), datetime.now(UTC))
WRITERS: list[asyncio.StreamWriter] = []
REQUEST = b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n"


@pytest.mark.parametrize(
    "fault",
    [ConnectionAbortedError(errno.ECONNABORTED, "gone"), OSError(errno.EMFILE, "too many"), RuntimeError("used by another")],
)
async def test_who_could_not_be_let_in_does_not_keep_others_out(fault: Exception, monkeypatch: pytest.MonkeyPatch) -> None:
    loop = asyncio.get_running_loop()
    faults, accept = [fault] * 3, loop.sock_accept

    async def failing(sock: socket.socket) -> tuple[socket.socket, object]:
        if faults:
            raise faults.pop()
        return await accept(sock)

    monkeypatch.setattr(listener_module, "NOT_ACCEPTING_SECONDS", 0.01)
    monkeypatch.setattr(loop, "sock_accept", failing)
    async with listening(secured=False) as listener, asyncio.timeout(20):
        assert b" 200 " in await ask(listener, secured=False)
    assert not faults


@asynccontextmanager
async def listening(*, secured: bool, **options: float) -> AsyncIterator[Listener]:
    async def answer(request: web.BaseRequest) -> web.Response:
        await asyncio.sleep(float(request.query.get("takes", "0")))
        return web.Response(text="well")

    tls = ServingTls()
    tls.use(MATERIAL.certificate, MATERIAL.key)
    listener = Listener(answer, tls=tls.context if secured else None, shutdown_timeout=5.0, **options)
    await listener.start("127.0.0.1", 0)
    try:
        yield listener
        await listener.stop()
    finally:
        while WRITERS:
            writer = WRITERS.pop()
            writer.close()
            with suppress(OSError):
                await writer.wait_closed()


def trust() -> ssl.SSLContext:
    return ssl.create_default_context(cadata=MATERIAL.bundle.decode())


async def connected(listener: Listener, *, secured: bool) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    reader, writer = await asyncio.open_connection("localhost", listener.port, ssl=trust() if secured else None)
    WRITERS.append(writer)
    return reader, writer


async def ask(listener: Listener, *, secured: bool, request: bytes = REQUEST) -> bytes:
    reader, writer = await connected(listener, secured=secured)
    writer.write(request)
    head = await reader.readuntil(b"\r\n\r\n")
    assert await reader.readexactly(4) == b"well"
    return head


async def ended(reader: asyncio.StreamReader) -> bool:
    try:
        return await reader.read() == b""
    except ConnectionError:
        return True


async def slow_heads(secured: bool) -> None:
    """Nothing, part of a head, or part of the second head: all are closed in time; a slow answer is not."""
    async with listening(secured=secured, head_seconds=0.5) as listener, asyncio.timeout(20):
        silent, _ = await connected(listener, secured=secured)
        partial, writer = await connected(listener, secured=secured)
        writer.write(REQUEST[:20])
        second, other = await connected(listener, secured=secured)
        other.write(REQUEST)
        await second.readuntil(b"well")
        other.write(REQUEST[:20])
        answered = asyncio.ensure_future(ask(listener, secured=secured, request=REQUEST.replace(b"GET /", b"GET /?takes=1.5")))
        assert [await ended(reader) for reader in (silent, partial, second)] == [True] * 3
        assert (await answered).startswith(b"HTTP/1.1 200")


async def slow_handshakes(_: bool) -> None:
    async with listening(secured=True, head_seconds=0.5) as listener, asyncio.timeout(20):
        silent, _writer = await connected(listener, secured=False)
        assert await ended(silent)
        while len(listener):
            await asyncio.sleep(0.01)


async def many(secured: bool) -> None:
    """However many come and say nothing, whoever asks is answered, and there are never more than the ceiling."""
    async with listening(secured=secured, most=8) as listener, asyncio.timeout(30):
        for number in range(100):
            await connected(listener, secured=False)
            if number % 10 == 0:
                assert (await ask(listener, secured=secured)).startswith(b"HTTP/1.1 200")
            assert len(listener) <= 8


async def busy(secured: bool) -> None:
    """What is being answered is not closed for others: these are refused."""
    async with listening(secured=secured, most=2) as listener, asyncio.timeout(20):
        slow = REQUEST.replace(b"GET /", b"GET /?takes=1")
        asked = [asyncio.ensure_future(ask(listener, secured=secured, request=slow)) for _ in range(2)]
        await asyncio.sleep(0.5)
        with pytest.raises((ConnectionError, asyncio.IncompleteReadError)):
            await ask(listener, secured=secured)
        assert all(head.startswith(b"HTTP/1.1 200") for head in await asyncio.gather(*asked))
        assert (await ask(listener, secured=secured)).startswith(b"HTTP/1.1 200")


async def stopping(secured: bool) -> None:
    async with asyncio.timeout(20):
        async with listening(secured=secured) as listener:
            slow = REQUEST.replace(b"GET /", b"GET /?takes=0.5")
            asked = [asyncio.ensure_future(ask(listener, secured=secured, request=slow)) for _ in range(3)]
            silent, _writer = await connected(listener, secured=False)
            await asyncio.sleep(0.2)
        assert all(head.startswith(b"HTTP/1.1 200") for head in await asyncio.gather(*asked))
        assert await ended(silent)
        assert len(listener) == 0


async def a_thousand(secured: bool) -> None:
    """1,000 slow ones cost some MiB: there is room for 256 of them."""
    async with listening(secured=secured, head_seconds=60.0) as listener, asyncio.timeout(60):
        before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        for _ in range(1000):
            _, writer = await connected(listener, secured=False)
            writer.write(REQUEST[:20])
        assert len(listener) <= 256
        assert (await ask(listener, secured=secured)).startswith(b"HTTP/1.1 200")
        assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 150 * 1024  # KiB, the clients among them


# The loops leave a socket whose handshake is given up in its first moment to the garbage collection.
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
@pytest.mark.parametrize("loop", [asyncio.new_event_loop, uvloop.new_event_loop], ids=["asyncio", "uvloop"])
@pytest.mark.parametrize("secured", [False, True], ids=["plain", "TLS"])
@pytest.mark.parametrize("scenario", [slow_heads, slow_handshakes, many, busy, stopping, a_thousand])
def test_listener(
    scenario: Callable[[bool], Awaitable[None]], secured: bool, loop: Callable[[], asyncio.AbstractEventLoop]
) -> None:
    with asyncio.Runner(loop_factory=loop) as runner:
        runner.run(scenario(secured))  # type: ignore[arg-type]
