"""Both servers, for the tests that compare them."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.control_plane import build
from tests.control_plane.real import RealControlPlane, real_control_plane
from tests.unit.running import RunningServer, running_server

NEEDED = ("etcd", "kube-apiserver", "kube-controller-manager")
CONTROLLERS = "*,-node-lifecycle-controller,-pod-garbage-collector-controller"
"""Whatever does its work at the time of a request; what comes along by the clock would change an object between two requests."""


@dataclass(frozen=True, slots=True)
class Pair:
    """A real control plane and ours, by their kubeconfigs."""

    plane: RealControlPlane
    server: RunningServer

    @property
    def real(self) -> Path:
        return self.plane.kubeconfig

    @property
    def ours(self) -> Path:
        return self.server.kubeconfig

    async def forget(self) -> None:
        """Make both forget the versions up to now."""
        self.server.compact()
        await self.plane.compact()
        await self.plane.apiserver.restart()  # what it remembers itself


@pytest.fixture
async def pair(control_plane: str, tmp_path: Path) -> AsyncIterator[Pair]:
    """A real control plane and ours, with nothing in them."""
    if control_plane != "real":
        pytest.skip("it compares with the real control plane: --control-plane=real")
    if build.missing(NEEDED):
        pytest.skip("the real control plane is not built: `make control-plane` needs Go")
    async with contextlib.AsyncExitStack() as stack:
        real, ours = await asyncio.gather(
            stack.enter_async_context(real_control_plane(tmp_path / "real", fsync=False, controllers=CONTROLLERS)),
            stack.enter_async_context(running_server(tmp_path / "ours")),
        )
        yield Pair(real, ours)
