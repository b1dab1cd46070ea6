"""Slow and many clients: each has so long to say what it wants, and others get their answers meanwhile."""

from __future__ import annotations

import asyncio
import errno
import resource
import socket
import ssl
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager, suppress
from datetime import UTC, datetime
from typing import Any

import pytest
import uvloop
from aiohttp import web

from pyroclast.runtime import listener as listener_module
from pyroclast.runtime.listener import Listener
from pyroclast.runtime.tls import ServingTls
from pyroclast_admission.certificates.issue import carry_out
from pyroclast_admission.certificates.plan import Step
from tests.bench.admission_server import policy

MATERIAL = carry_out(Step.START_OVER, None, policy(), datetime.now(UTC))
WRITERS: dict[Listener, list[asyncio.StreamWriter]] = {}
GATES: dict[Listener, Gate] = {}
REQUEST = b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n"
BUFFER = 64 * 1024
"""Bytes that the system takes for each end of a connection, or about twice as many."""
LARGE = 4 * 1024 * 1024
"""Bytes: more than the buffers of both ends take."""
SMALL = REQUEST.replace(b"GET /", b"GET /?size=2000")
GATED = REQUEST.replace(b"GET /", b"GET /?gated=1")
FOR_LARGE = REQUEST.replace(b"GET /", b"GET /?size=%d" % LARGE)
HASTY = {"write_seconds": 0.5, "write_bytes_per_second": 10.0 * LARGE}


class Gate:
    """Holds the answers to requests for `/?gated=1` back until it is opened."""

    def __init__(self) -> None:
        self.waiting = 0
        self.is_open = asyncio.Event()

    async def passed(self) -> None:
        self.waiting += 1
        await self.is_open.wait()


@pytest.mark.parametrize(
    "fault",
    [ConnectionAbortedError(errno.ECONNABORTED, "gone"), OSError(errno.EMFILE, "too many"), RuntimeError("used by another")],
)
async def test_a_failed_accept_does_not_stop_the_listener(fault: Exception, monkeypatch: pytest.MonkeyPatch) -> None:
    loop = asyncio.get_running_loop()
    faults, accept = [fault] * 3, loop.sock_accept

    async def failing(sock: socket.socket) -> tuple[socket.socket, object]:
        if faults:
            raise faults.pop()
        return await accept(sock)

    monkeypatch.setattr(listener_module, "NOT_ACCEPTING_SECONDS", 0.01)
    monkeypatch.setattr(loop, "sock_accept", failing)
    async with listening(secured=False) as listener, asyncio.timeout(60):
        assert b" 200 " in await ask(listener, secured=False)
    assert not faults


@asynccontextmanager
async def listening(*, secured: bool, **options: Any) -> AsyncIterator[Listener]:
    async def answer(request: web.BaseRequest) -> web.Response:
        await asyncio.sleep(float(request.query.get("takes", "0")))
        if "gated" in request.query:
            await GATES[listener].passed()
        if request.transport is not None:  # what the system takes is more than it would be over a network
            request.transport.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, BUFFER)
        return web.Response(body=bytes(int(request.query.get("size", "0"))) or b"well")

    tls = ServingTls()
    tls.use(MATERIAL.certificate, MATERIAL.key)
    listener = Listener(answer, tls=tls.context if secured else None, **{"shutdown_timeout": 5.0, **options})
    await listener.start("127.0.0.1", 0)
    GATES[listener] = Gate()
    try:
        yield listener
        await listener.stop()
    finally:
        del GATES[listener]
        for writer in WRITERS.pop(listener, ()):
            writer.transport.abort()  # closing would wait for a TLS peer that was left unread
            with suppress(OSError, TimeoutError):
                async with asyncio.timeout(5):
                    await writer.wait_closed()


def trust() -> ssl.SSLContext:
    return ssl.create_default_context(cadata=MATERIAL.bundle.decode())


async def connected(listener: Listener, *, secured: bool) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    peer = socket.socket()
    peer.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, BUFFER)  # else the system may take all of LARGE before anybody reads
    peer.setblocking(False)
    await asyncio.get_running_loop().sock_connect(peer, ("127.0.0.1", listener.port))
    secure: dict[str, Any] = {"ssl": trust(), "server_hostname": "localhost"} if secured else {}
    reader, writer = await asyncio.open_connection(sock=peer, **secure)
    WRITERS.setdefault(listener, []).append(writer)
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


@asynccontextmanager
async def readers_of_nothing(listener: Listener, count: int, *, secured: bool) -> AsyncIterator[None]:
    """Connections that ask and do not read: half of them for small things without end, half once for something large."""

    async def ask_on(writer: asyncio.StreamWriter) -> None:
        with suppress(ConnectionError):
            while True:
                writer.write(SMALL * 100)
                await writer.drain()

    stuck: set[web.RequestHandler] = set()

    def are_stuck() -> bool:
        assert listener.runner.server is not None
        stuck.update(each for each in listener.runner.server.connections if each.writing_paused)
        return len(stuck) == count

    watching = asyncio.ensure_future(until(are_stuck))  # from the beginning: the first may be gone when the last is there
    tasks = [watching]
    try:
        for number in range(count):
            _, writer = await connected(listener, secured=secured)
            if number % 2:
                writer.write(FOR_LARGE)
            else:
                tasks.append(asyncio.ensure_future(ask_on(writer)))
        await watching
        yield
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.wait(tasks, timeout=60)


async def until(holds: Callable[[], bool]) -> None:
    while not holds():
        await asyncio.sleep(0.01)


async def slow_heads(secured: bool) -> None:
    """Nothing, part of a head, or part of the second head: all are closed in time; a slow answer is not."""
    async with listening(secured=secured, head_seconds=1.0) as listener, asyncio.timeout(60):
        silent, _ = await connected(listener, secured=secured)
        partial, writer = await connected(listener, secured=secured)
        writer.write(REQUEST[:20])
        second, other = await connected(listener, secured=secured)
        other.write(REQUEST)
        await second.readuntil(b"well")
        other.write(REQUEST[:20])
        answered = asyncio.ensure_future(ask(listener, secured=secured, request=REQUEST.replace(b"GET /", b"GET /?takes=2")))
        assert [await ended(reader) for reader in (silent, partial, second)] == [True] * 3
        assert (await answered).startswith(b"HTTP/1.1 200")


async def slow_handshakes(secured: bool) -> None:
    if not secured:
        return
    async with listening(secured=True, head_seconds=0.5) as listener, asyncio.timeout(60):
        silent, _writer = await connected(listener, secured=False)
        assert await ended(silent)
        await until(lambda: len(listener) == 0)


async def many(secured: bool) -> None:
    """However many come and say nothing, whoever asks is answered, and there are never more than the ceiling."""
    async with listening(secured=secured, most=8) as listener, asyncio.timeout(60):
        for number in range(100):
            await connected(listener, secured=False)
            if number % 10 == 0:
                assert (await ask(listener, secured=secured)).startswith(b"HTTP/1.1 200")
            assert len(listener) <= 8


async def busy(secured: bool) -> None:
    """What is being answered is not closed for others: these are refused."""
    async with listening(secured=secured, most=2) as listener, asyncio.timeout(60):
        gate = GATES[listener]
        asked = [asyncio.ensure_future(ask(listener, secured=secured, request=GATED)) for _ in range(2)]
        await until(lambda: gate.waiting == 2)
        with pytest.raises((ConnectionError, asyncio.IncompleteReadError)):
            await ask(listener, secured=secured)
        gate.is_open.set()
        assert all(head.startswith(b"HTTP/1.1 200") for head in await asyncio.gather(*asked))
        assert (await ask(listener, secured=secured)).startswith(b"HTTP/1.1 200")


async def unread(secured: bool) -> None:
    """Who waits for a peer that does not read makes room for others, each of whom is answered at once."""
    async with listening(secured=secured, most=8, write_seconds=600.0) as listener, asyncio.timeout(60):
        async with readers_of_nothing(listener, 8, secured=secured):
            for _ in range(8):
                assert (await ask(listener, secured=secured)).startswith(b"HTTP/1.1 200")
        assert len(listener) == 8
        listener.abort()  # one that was read from in that moment may be left: stopping would wait for it


async def unread_for_long(secured: bool) -> None:
    """Who does not read is gone in time, also when nobody comes who needs the room."""
    async with (
        asyncio.timeout(60),
        listening(secured=secured, **HASTY) as listener,
        readers_of_nothing(listener, 4, secured=secured),
    ):
        await until(lambda: len(listener) == 0)


async def unread_bit_by_bit(secured: bool) -> None:
    """So is who does not read many small answers, as soon as the system does not take one of them."""

    def is_full() -> bool:
        assert listener.runner.server is not None
        return any(each.transport and each.transport.get_write_buffer_size() for each in listener.runner.server.connections)

    async with asyncio.timeout(60), listening(secured=secured, **HASTY) as listener:
        _, writer = await connected(listener, secured=secured)
        while not is_full():
            writer.write(REQUEST.replace(b"GET /", b"GET /?size=16000"))
            await asyncio.sleep(0.01)
        await until(lambda: len(listener) == 0)


async def dripping(secured: bool) -> None:
    """Who reads a little now and then wins no time by it."""
    async with asyncio.timeout(60), listening(secured=secured, **HASTY) as listener:
        reader, writer = await connected(listener, secured=secured)
        writer.write(FOR_LARGE)
        taken = 0
        with suppress(ConnectionError):
            while part := await reader.read(64 * 1024):
                taken += len(part)
                await asyncio.sleep(0.1)
        assert 0 < taken < LARGE


async def steady(secured: bool) -> None:
    """Who reads slowly but steadily gets all of what is large, and the connection stays."""
    options = {"write_seconds": 0.2, "write_bytes_per_second": LARGE / 10}
    async with asyncio.timeout(60), listening(secured=secured, **options) as listener:
        reader, writer = await connected(listener, secured=secured)
        writer.write(FOR_LARGE)
        await reader.readuntil(b"\r\n\r\n")
        for _ in range(16):
            await asyncio.sleep(0.05)
            await reader.readexactly(LARGE // 16)
        writer.write(REQUEST)
        assert (await reader.readuntil(b"well")).startswith(b"HTTP/1.1 200")


async def bodies_by_themselves(secured: bool) -> None:
    """Who sends head and body one after the other has them answered, and the connection stays, whenever the body comes."""
    head = b"POST / HTTP/1.1\r\nHost: localhost\r\nContent-Length: 4\r\n\r\n"

    async def again(turns: int) -> None:
        reader, writer = await connected(listener, secured=secured)
        for body in (b"once", b"more"):
            writer.write(head)
            for _ in range(turns):
                await asyncio.sleep(0)
            writer.write(body)
            assert (await reader.readuntil(b"well")).startswith(b"HTTP/1.1 200")
            await asyncio.sleep(1.5)

    async with asyncio.timeout(60), listening(secured=secured, head_seconds=1.0) as listener:
        await asyncio.gather(*map(again, range(12)))


async def stopping_unread(secured: bool) -> None:
    """Stopping waits only so long for who does not read: neither for ever, nor as long as for what is being worked out."""
    async with asyncio.timeout(60), listening(secured=secured, shutdown_timeout=600.0, **HASTY) as listener:
        async with readers_of_nothing(listener, 4, secured=secured):
            await listener.stop()
        assert len(listener) == 0


async def stopping_in_a_hurry(secured: bool) -> None:
    """What is cut off, as there is no time for it, does not wait for its peer either."""
    options = {"shutdown_timeout": 0.1, "write_seconds": 0.5, "write_bytes_per_second": 1.0}
    async with asyncio.timeout(60), listening(secured=secured, **options) as listener:
        async with readers_of_nothing(listener, 4, secured=secured):
            await listener.stop()
        assert len(listener) == 0


async def stopping(secured: bool) -> None:
    async with asyncio.timeout(60):
        async with listening(secured=secured) as listener:
            gate = GATES[listener]
            asked = [asyncio.ensure_future(ask(listener, secured=secured, request=GATED)) for _ in range(3)]
            silent, _writer = await connected(listener, secured=False)
            await until(lambda: gate.waiting == 3 and len(listener) == 4)
            asyncio.get_running_loop().call_later(0.3, gate.is_open.set)  # while it is stopping
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


SCENARIOS = [
    slow_heads,
    slow_handshakes,
    many,
    busy,
    unread,
    unread_for_long,
    unread_bit_by_bit,
    dripping,
    steady,
    bodies_by_themselves,
    stopping,
    stopping_unread,
    stopping_in_a_hurry,
    a_thousand,
]


# The loops leave a socket whose handshake is given up in its first moment to the garbage collection.
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
@pytest.mark.parametrize("loop", [asyncio.new_event_loop, uvloop.new_event_loop], ids=["asyncio", "uvloop"])
@pytest.mark.parametrize("scenario", SCENARIOS)
def test_the_listener_serves_and_stops_despite_slow_silent_or_many_clients(
    scenario: Callable[[bool], Coroutine[Any, Any, None]], loop: Callable[[], asyncio.AbstractEventLoop]
) -> None:
    async def plain_and_over_tls() -> None:  # at the same time, as both wait more than they work
        async with asyncio.TaskGroup() as group:
            group.create_task(scenario(False), name="plain")
            group.create_task(scenario(True), name="TLS")

    with asyncio.Runner(loop_factory=loop) as runner:
        runner.run(plain_and_over_tls())
