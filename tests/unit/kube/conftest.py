from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from pyroclast.kube.client import Client

from tests.unit.kube.fault_server import FaultServer


@pytest.fixture
async def server() -> AsyncIterator[FaultServer]:
    async with FaultServer() as server:
        yield server


@pytest.fixture
async def client(server: FaultServer) -> AsyncIterator[Client]:
    async with server.client() as client:
        yield client
