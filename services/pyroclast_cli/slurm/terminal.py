"""The terminal of the user, connected with a terminal in a container."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
import termios
import tty
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Final

import orjson
from aiohttp import ClientWebSocketResponse, WSMsgType

from pyroclast.api.types import Key
from pyroclast.kube.http import exec as channels
from pyroclast.kube.http.client import Client
from pyroclast_cli.flags import Failure

CHUNK: Final = 4096
LOST: Final = 255


async def opened(client: Client, pod: Key, container: str, command: Sequence[str]) -> int:
    """Run a command in a container with this terminal. Return its exit code."""
    async with channels.attached(client, pod, container, command, tty=True) as socket:
        with _raw():
            code = await _connected(socket)
    if code is None:
        raise Failure(
            "the connection to the terminal was lost; the Job is released after its idle time, or by scancel", status=LOST
        )
    return code


async def _connected(socket: ClientWebSocketResponse) -> int | None:
    """Copy in both directions until the command ends. None when the connection ends before."""
    loop = asyncio.get_running_loop()
    typed: asyncio.Queue[bytes] = asyncio.Queue()

    def resized() -> None:
        size = os.get_terminal_size(sys.stdin.fileno())
        typed.put_nowait(bytes([channels.SIZE]) + orjson.dumps({"Width": size.columns, "Height": size.lines}))

    def read() -> None:
        data = os.read(sys.stdin.fileno(), CHUNK)
        if not data:
            loop.remove_reader(sys.stdin.fileno())
        typed.put_nowait(bytes([channels.STDIN]) + (data or b"\x04"))

    async def send() -> None:
        while True:
            message = await typed.get()
            try:
                await socket.send_bytes(message)
            except ConnectionError:
                return  # the reader notices the end

    resized()
    loop.add_signal_handler(signal.SIGWINCH, resized)
    loop.add_reader(sys.stdin.fileno(), read)
    try:
        async with asyncio.TaskGroup() as tasks:
            sending = tasks.create_task(send())
            try:
                return await _printed(socket)
            finally:
                sending.cancel()
    finally:
        loop.remove_reader(sys.stdin.fileno())
        loop.remove_signal_handler(signal.SIGWINCH)


async def _printed(socket: ClientWebSocketResponse) -> int | None:
    async for message in socket:
        if message.type is not WSMsgType.BINARY or not message.data:
            continue
        channel, data = message.data[0], message.data[1:]
        if channel == channels.END:
            code, text = channels.exit_code_of(data)
            if text:
                sys.stderr.write(f"{text}\r\n")
            return code
        sys.stdout.buffer.write(data)
        sys.stdout.buffer.flush()
    return None


@contextmanager
def _raw() -> Iterator[None]:
    """Hand every key to the other side, and restore the terminal."""
    descriptor = sys.stdin.fileno()
    before = termios.tcgetattr(descriptor)
    try:
        tty.setraw(descriptor, termios.TCSADRAIN)  # what was typed ahead is kept
        yield
    finally:
        termios.tcsetattr(descriptor, termios.TCSADRAIN, before)
