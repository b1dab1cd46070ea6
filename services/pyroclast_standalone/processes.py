"""The child processes of a control plane and their TCP ports: starts them, restarts those that die, and stops them together."""

from __future__ import annotations

import asyncio
import contextlib
import ctypes
import os
import random
import shutil
import signal
import socket
import sys
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from pyroclast.resources.backoff import Backoff
from pyroclast_standalone.directory import CommandError

RANGE: Final = range(20_000, 32_768)
"""Ports below Linux's range for outgoing connections, so that no such connection takes a port before a server listens on it."""

TRIES: Final = 100


def is_free(port: int) -> bool:
    """Return whether no process listens on `port` of 127.0.0.1."""
    with socket.socket() as listener:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            listener.bind(("127.0.0.1", port))
        except OSError:
            return False
    return True


def free_port() -> int:
    """Return a port of 127.0.0.1 on which no process listens, and reserve it while this process runs.

    Raises OSError: no free port was found.
    """
    for _ in range(TRIES):
        port = random.choice(RANGE)  # noqa: S311 - not a secret
        if _reserve(port):
            return port
    raise OSError(f"no free port found between {RANGE.start} and {RANGE.stop - 1}")


def _reserve(port: int) -> bool:
    """Reserve `port`. Return whether it was free. A server that allows address reuse may listen on a reserved port."""
    holder = socket.socket()
    try:
        holder.bind(("127.0.0.1", port))
    except OSError:
        holder.close()
        return False
    holder.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    holder.detach()  # leaves the socket open until the process ends
    return True


DELAYS_SECONDS = 0.5, 30.0  # before restarts: a killed service should be back before its Jobs are affected
STEADY_SECONDS = 60.0  # after this running time, the restart delay does not grow
STOP_SECONDS = 15.0  # longer than any service needs to drain
READY_SECONDS = 180.0
KILLED = {-signal.SIGKILL, -signal.SIGTERM}  # killed from outside: the process would not end again by itself
MOST_LOG_BYTES = 20 * 1024 * 1024  # of each process, in addition to as much from before
ROTATION_SECONDS = 60.0
USAGE_STATUS = 2  # a process that rejects its settings would reject them again


@dataclass(frozen=True, slots=True)
class Program:
    """A program to start: `python -m module arguments`. `is_ready` is called until it returns True."""

    name: str
    module: str
    arguments: tuple[str, ...]
    is_ready: Callable[[], Awaitable[bool]]


@dataclass(slots=True)
class _Child:
    program: Program
    process: asyncio.subprocess.Process
    started_at: float = field(default_factory=time.monotonic)


class Supervisor:
    """Runs programs as child processes. `say` is called with a line `NAME pid=N` at each start."""

    def __init__(self, logs: Path, say: Callable[[str], None]) -> None:
        self._logs = logs
        self.say = say
        self._children: dict[str, _Child] = {}
        self._stopping = False

    async def start(self, program: Program) -> None:
        """Start `program` and wait until it is ready."""
        child = await self._spawn(program)
        deadline = time.monotonic() + READY_SECONDS
        while not await program.is_ready():
            if child.process.returncode is not None:
                raise CommandError(
                    f"{program.name} ended with status {child.process.returncode}: {self._last_line(program.name)}"
                )
            if time.monotonic() > deadline:
                log = self._log(program.name)
                raise CommandError(
                    f"{program.name} was not ready within {READY_SECONDS:.0f} s: {self._last_line(program.name)} (log: {log})"
                )
            await asyncio.sleep(0.05)

    async def watch(self) -> None:
        """Restart processes that die, and keep their logs short, until `stop` is called."""
        async with asyncio.TaskGroup() as group:
            rotating = group.create_task(self._keep_logs_short())
            await asyncio.wait([group.create_task(self._keep(name)) for name in list(self._children)])
            rotating.cancel()

    async def stop(self) -> None:
        """Stop all children, by force after a timeout. All are stopped together, except the first, on which the others depend."""
        self._stopping = True
        children = list(self._children.values())
        async with asyncio.TaskGroup() as group:
            for child in children[1:]:
                group.create_task(_end(child))
        for child in children[:1]:
            await _end(child)
        self._children.clear()

    async def _keep(self, name: str) -> None:
        backoff = Backoff(*DELAYS_SECONDS)
        while True:
            child = self._children[name]
            status = await child.process.wait()
            if self._stopping:
                return
            if status == USAGE_STATUS:
                raise CommandError(f"{name} refused its settings: {self._last_line(name)}")
            if time.monotonic() - child.started_at > STEADY_SECONDS or status in KILLED:
                backoff.reset()
            why = "" if status in KILLED else f", {self._last_line(name)}"
            delay = backoff.next()
            self.say(f"{name} ended ({_how(status)}{why}): starting it again in {delay:g} s")
            await asyncio.sleep(delay)
            if self._stopping:
                return
            await self._spawn(child.program)

    async def _keep_logs_short(self) -> None:
        while True:
            for name in list(self._children):
                await asyncio.to_thread(rotate, self._log(name))
            await asyncio.sleep(ROTATION_SECONDS)

    async def _spawn(self, program: Program) -> _Child:
        with self._log(program.name).open("ab") as log:
            process = await asyncio.create_subprocess_exec(
                sys.executable,
                "-m",
                program.module,
                *program.arguments,
                stdin=asyncio.subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                preexec_fn=_die_with_parent,
            )
        self._children[program.name] = child = _Child(program, process)
        self.say(f"{program.name} pid={process.pid}")
        return child

    def _log(self, name: str) -> Path:
        return self._logs / f"{name}.log"

    def _last_line(self, name: str) -> str:
        lines = self._log(name).read_text(errors="replace").strip().splitlines()
        return lines[-1] if lines else "it wrote no log"


def rotate(log: Path, most: int = MOST_LOG_BYTES) -> None:
    """Move the content of a log above `most` bytes to `NAME.log.1`. Its process goes on to append to the same file."""
    if log.exists() and log.stat().st_size > most:
        shutil.copyfile(log, log.with_name(log.name + ".1"))
        os.truncate(log, 0)


async def _end(child: _Child) -> None:
    if child.process.returncode is not None:
        return
    with contextlib.suppress(ProcessLookupError):
        child.process.terminate()
    try:
        await asyncio.wait_for(child.process.wait(), STOP_SECONDS)
    except TimeoutError:
        child.process.kill()
        await child.process.wait()


def _how(status: int) -> str:
    return f"killed by {signal.Signals(-status).name}" if status < 0 else f"status {status}"


def _die_with_parent() -> None:
    """In the child before exec: leave the terminal's process group, and end when the supervisor ends in any way."""
    os.setpgid(0, 0)
    if sys.platform == "linux":
        parent_death_signal = 1  # PR_SET_PDEATHSIG
        ctypes.CDLL(None).prctl(parent_death_signal, signal.SIGTERM)
