"""A slow network between one client and the API server: TCP passed on late, in order, from an address that tells the client."""

from __future__ import annotations

import asyncio
import contextlib
import threading
from collections.abc import Iterator
from concurrent.futures import Future
from dataclasses import dataclass, field
from pathlib import Path

import yaml

CHUNK = 64 * 1024
SOURCES = ("127.0.0.2", "127.0.0.3")
"""Addresses of this machine that tell two clients apart."""


def port_of(kubeconfig: Path) -> int:
    """Where the API server of a kubeconfig listens on this machine."""
    return int(yaml.safe_load(kubeconfig.read_text())["clusters"][0]["cluster"]["server"].rpartition(":")[2])


@dataclass(slots=True)
class SlowNetwork:
    """`delay`: seconds that what a client sends takes from now on; `source`: the address that the server sees.

    `is_mute`: what the server answers from now on is lost.
    """

    target: int
    source: str
    delay: float = 0.0
    is_mute: bool = False
    port: int = 0
    loop: asyncio.AbstractEventLoop | None = None
    _writers: set[asyncio.StreamWriter] = field(default_factory=set)

    def cut(self) -> None:
        """Break all connections, watches too."""
        assert self.loop is not None
        for writer in list(self._writers):
            self.loop.call_soon_threadsafe(writer.transport.abort)

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            up_reader, up_writer = await asyncio.open_connection("127.0.0.1", self.target, local_addr=(self.source, 0))
        except OSError:
            writer.close()
            return
        self._writers |= {writer, up_writer}
        with contextlib.suppress(asyncio.CancelledError):  # the end of the network
            await asyncio.gather(self._pass_on_late(reader, up_writer), self._pass_on(up_reader, writer))
        self._writers -= {writer, up_writer}
        up_writer.close()
        writer.close()

    async def _pass_on_late(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Also when the client has gone by then: what a network has taken it delivers."""
        under_way: asyncio.Queue[tuple[float, bytes]] = asyncio.Queue()
        delivering = asyncio.create_task(self._deliver(under_way, writer))
        loop = asyncio.get_running_loop()
        data = b"-"
        while data:
            try:
                data = await reader.read(CHUNK)
            except OSError:
                data = b""
            under_way.put_nowait((loop.time() + self.delay, data))
        await delivering

    async def _deliver(self, under_way: asyncio.Queue[tuple[float, bytes]], writer: asyncio.StreamWriter) -> None:
        loop = asyncio.get_running_loop()
        while True:
            when, data = await under_way.get()
            await asyncio.sleep(when - loop.time())
            if not data:
                writer.close()
                return
            writer.write(data)

    async def _pass_on(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(OSError):
            while data := await reader.read(CHUNK):
                if not self.is_mute:
                    writer.write(data)
                    await writer.drain()
        writer.close()


@contextlib.contextmanager
def slow_network(target: int, source: str) -> Iterator[SlowNetwork]:
    """Listens on `port` of 127.0.0.1 and passes on to port `target` there, in a thread of its own."""
    network = SlowNetwork(target, source)
    started: Future[asyncio.Event] = Future()

    async def run() -> None:
        server = await asyncio.start_server(network.serve, "127.0.0.1", 0)
        network.port, network.loop = server.sockets[0].getsockname()[1], asyncio.get_running_loop()
        over = asyncio.Event()
        started.set_result(over)
        await over.wait()
        server.close()

    thread = threading.Thread(target=lambda: asyncio.run(run()), daemon=True)
    thread.start()
    over = started.result(10)
    assert network.loop is not None
    try:
        yield network
    finally:
        network.loop.call_soon_threadsafe(over.set)
        thread.join()
