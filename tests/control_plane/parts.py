"""One program of the control plane as a process that can be started, stopped, killed and started again."""

from __future__ import annotations

import asyncio
import ctypes
import signal
import time
from collections.abc import Awaitable, Callable
from pathlib import Path

__all__ = ["Part", "PartDied", "wait_until"]

_STOP_SECONDS = 10.0
_POLL_SECONDS = 0.05
_TRIES = 3
_PORT_TAKEN = "address already in use"
_PR_SET_PDEATHSIG = 1
_libc = ctypes.CDLL(None)


class PartDied(RuntimeError):
    """A program ended although nobody stopped it; the message ends with the last lines of its log."""


class Part:
    """A program with its command line, asked for at each start. `ready` is asked until it says yes after it.

    `starts` tells of each start when it was and when the program was ready, in seconds since the epoch.
    """

    def __init__(self, name: str, command: Callable[[], list[str]], log: Path, ready: Callable[[], Awaitable[bool]]) -> None:
        self.name, self.command, self.log = name, command, log
        self.starts: list[tuple[float, float]] = []
        self._ready = ready
        self._process: asyncio.subprocess.Process | None = None

    @property
    def pid(self) -> int | None:
        """Process id; None when it does not run."""
        running = self._process is not None and self._process.returncode is None
        return self._process.pid if running and self._process else None

    async def start(self, *, within: float = 60.0) -> None:
        """Start the process and wait, at most `within` seconds, until it is ready; again where another took its port first.

        Raises:
            PartDied: it ended meanwhile.
            TimeoutError: it is not ready after `within` seconds.
        """
        for left in reversed(range(_TRIES)):
            started = time.time()
            with self.log.open("ab") as log:
                self._process = await asyncio.create_subprocess_exec(
                    *self.command(), stdout=log, stderr=log, stdin=asyncio.subprocess.DEVNULL, preexec_fn=_die_with_parent
                )
            try:
                await self.ready(within)
            except PartDied as died:
                if not left or _PORT_TAKEN not in str(died):
                    raise
            else:
                self.starts.append((started, time.time()))
                return

    async def ready(self, within: float = 60.0) -> None:
        """Wait until it is ready.

        Raises:
            PartDied: it ended meanwhile.
            TimeoutError: it is not ready after `within` seconds.
        """

        async def ready_or_dead() -> bool:
            if self.pid is None:
                raise PartDied(f"{self.name} ended: {self._last_words()}")
            return await self._ready()

        await wait_until(ready_or_dead, within, f"{self.name} to be ready: {self.log}")

    async def stop(self) -> None:
        """Ask it to end, and end it after 10 s."""
        if self._process is None or self.pid is None:
            return
        self._process.terminate()
        try:
            async with asyncio.timeout(_STOP_SECONDS):
                await self._process.wait()
        except TimeoutError:
            await self.kill()

    async def kill(self) -> None:
        """End it at once, without a chance to say goodbye."""
        if self._process is not None and self.pid is not None:
            self._process.kill()
            await self._process.wait()

    async def restart(self, *, down_seconds: float = 0.0, kill: bool = False) -> None:
        """Stop (or kill) it, leave it down for a while, and start it again."""
        await (self.kill() if kill else self.stop())
        await asyncio.sleep(down_seconds)
        await self.start()

    def _last_words(self) -> str:
        return "\n".join(self.log.read_text(errors="replace").splitlines()[-8:])


async def wait_until(condition: Callable[[], Awaitable[bool]], within: float, what: str) -> None:
    """Ask `condition` every 50 ms until it holds; TimeoutError naming `what` after `within` seconds."""
    try:
        async with asyncio.timeout(within):
            while not await condition():
                await asyncio.sleep(_POLL_SECONDS)
    except TimeoutError:
        raise TimeoutError(f"waited {within:.0f} s for {what}") from None


def _die_with_parent() -> None:
    _libc.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
