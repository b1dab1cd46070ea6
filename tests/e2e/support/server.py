"""A real control plane for synchronous tests: an event loop of its own in a thread keeps it."""

from __future__ import annotations

import asyncio
import contextlib
import threading
from collections.abc import Coroutine, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

from tests.control_plane.real import PLAIN, Flavour, RealControlPlane, real_control_plane

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class RealServer:
    plane: RealControlPlane
    loop: asyncio.AbstractEventLoop

    @property
    def kubeconfig(self) -> Path:
        return self.plane.kubeconfig

    @property
    def audit_log(self) -> Path:
        return self.plane.audit_log

    def do(self, work: Coroutine[object, object, T]) -> T:
        """Run `work` where the control plane lives, to its end."""
        return asyncio.run_coroutine_threadsafe(work, self.loop).result()


@contextlib.contextmanager
def real_server(folder: Path, *, scheduler: bool = False, flavour: Flavour = PLAIN) -> Iterator[RealServer]:
    """A control plane in `folder`; with kube-scheduler where `scheduler`. It does not wait for the disk."""
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever, daemon=True)
    thread.start()
    running = real_control_plane(folder, fsync=False, scheduler=scheduler, flavour=flavour)
    try:
        plane = asyncio.run_coroutine_threadsafe(running.__aenter__(), loop).result()
        try:
            yield RealServer(plane, loop)
        finally:
            asyncio.run_coroutine_threadsafe(running.__aexit__(None, None, None), loop).result()
    finally:
        loop.call_soon_threadsafe(loop.stop)
        thread.join()
        loop.close()
