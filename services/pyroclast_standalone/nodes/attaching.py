"""Commands that `exec` starts in a container: their terminal or pipes, connected with a WebSocket as by a kubelet."""

from __future__ import annotations

import asyncio
import contextlib
import errno
import fcntl
import os
import pty
import signal
import struct
import subprocess
import termios
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import orjson
from aiohttp import WSMsgType, web

from pyroclast.kube.http import exec as channels

_CHUNK = 64 * 1024
_PERIOD = 0.2  # seconds between two looks at the container
_END_OF_TRANSMISSION = b"\x04"
_LONGEST_SIDE = 10_000


@dataclass(frozen=True, slots=True)
class Streams:
    """Both ends of the streams of a command. `outputs`: the channel of each descriptor that is read."""

    child: tuple[int, int, int]
    stdin: int
    outputs: Mapping[int, int]
    is_terminal: bool

    @classmethod
    def open(cls, *, tty: bool) -> Streams:
        """Open a terminal, or three pipes."""
        if tty:
            leader, follower = pty.openpty()
            os.set_blocking(leader, False)
            return cls((follower, follower, follower), leader, {leader: channels.STDOUT}, is_terminal=True)
        (in_read, in_write), (out_read, out_write), (err_read, err_write) = os.pipe(), os.pipe(), os.pipe()
        os.set_blocking(in_write, False)
        outputs = {out_read: channels.STDOUT, err_read: channels.STDERR}
        return cls((in_read, out_write, err_write), in_write, outputs, is_terminal=False)

    def resize(self, width: int, height: int) -> None:
        """Set the size of the terminal."""
        if self.is_terminal and 0 < width < _LONGEST_SIDE and 0 < height < _LONGEST_SIDE:
            fcntl.ioctl(self.stdin, termios.TIOCSWINSZ, struct.pack("HHHH", height, width, 0, 0))


@dataclass(frozen=True, slots=True)
class Attached:
    """A started command. `leader` returns the id of its session, `code` its exit code."""

    streams: Streams
    shim: subprocess.Popen[bytes]
    leader: Callable[[], int | None]
    code: Callable[[], int]

    def signal(self, number: signal.Signals) -> None:
        """Send a signal to the processes of the command."""
        if (pid := self.leader()) is not None and self.shim.poll() is None:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(pid, number)


async def serve(socket: web.WebSocketResponse, attached: Attached, is_over: Callable[[], bool]) -> None:
    """Copy the streams of the command until it has ended. A client that goes hangs up; the end of the container kills it."""
    descriptor = os.pidfd_open(attached.shim.pid)
    streams = attached.streams
    try:
        async with asyncio.TaskGroup() as tasks:
            ended = tasks.create_task(_ready(descriptor))
            copies = [tasks.create_task(_copy(socket, *each)) for each in streams.outputs.items()]
            gone = tasks.create_task(_read(socket, streams))
            over = tasks.create_task(_until(is_over))
            await asyncio.wait({ended, gone, over}, return_when=asyncio.FIRST_COMPLETED)
            if not ended.done():
                attached.signal(signal.SIGKILL if over.done() else signal.SIGHUP)
                await asyncio.wait(
                    {ended, over}, return_when=asyncio.FIRST_COMPLETED
                )  # a hang-up may be ignored, as on a kubelet
                attached.signal(signal.SIGKILL)
            await ended
            await asyncio.wait(copies, timeout=_PERIOD)
            for task in (*copies, gone, over):
                task.cancel()
        if not socket.closed:
            status = channels.status_of(attached.code())
            with contextlib.suppress(ConnectionError):
                await socket.send_bytes(bytes([channels.END]) + orjson.dumps(status))
                await socket.close()
    finally:
        if attached.shim.poll() is None:
            attached.signal(signal.SIGKILL)
            if attached.leader() is None:
                attached.shim.kill()
        attached.shim.wait()
        for each in {descriptor, attached.streams.stdin, *attached.streams.outputs}:
            with contextlib.suppress(OSError):
                os.close(each)


async def _copy(socket: web.WebSocketResponse, descriptor: int, channel: int) -> None:
    while True:
        await _ready(descriptor)
        try:
            chunk = os.read(descriptor, _CHUNK)
        except BlockingIOError:
            continue
        except OSError as error:
            if error.errno == errno.EIO:  # nobody has the terminal open any more
                return
            raise
        if not chunk:
            return
        with contextlib.suppress(ConnectionError):  # the reader is gone: what it would have read is dropped
            await socket.send_bytes(bytes([channel]) + chunk)


async def _read(socket: web.WebSocketResponse, streams: Streams) -> None:
    """Write the messages of the client into the command until the client goes."""
    async for message in socket:
        if message.type is not WSMsgType.BINARY or not message.data:
            continue
        channel, data = message.data[0], message.data[1:]
        if channel == channels.STDIN:
            await _write(streams.stdin, data)
        elif channel == channels.SIZE:
            with contextlib.suppress(ValueError, TypeError, AttributeError):
                size: Mapping[str, Any] = orjson.loads(data)
                streams.resize(int(size.get("Width", 0)), int(size.get("Height", 0)))
        elif channel == channels.CLOSE and data[:1] == bytes([channels.STDIN]):
            if streams.is_terminal:
                await _write(streams.stdin, _END_OF_TRANSMISSION)
            else:
                os.dup2(os.open(os.devnull, os.O_RDWR), streams.stdin)  # closes the pipe and keeps the number taken


async def _write(descriptor: int, data: bytes) -> None:
    while data:
        try:
            data = data[os.write(descriptor, data) :]
        except BlockingIOError:
            await _ready(descriptor, to_write=True)
        except OSError:
            return  # the command reads no more


async def _until(is_over: Callable[[], bool]) -> None:
    while not is_over():
        await asyncio.sleep(_PERIOD)


async def _ready(descriptor: int, *, to_write: bool = False) -> None:
    """Wait until a descriptor can be read, or written."""
    loop = asyncio.get_running_loop()
    future: asyncio.Future[None] = loop.create_future()
    add, remove = (loop.add_writer, loop.remove_writer) if to_write else (loop.add_reader, loop.remove_reader)
    add(descriptor, lambda: None if future.done() else future.set_result(None))
    try:
        await future
    finally:
        remove(descriptor)
